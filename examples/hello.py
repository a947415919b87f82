# SPDX-License-Identifier: Apache-2.0
"""Say hello, and look around: what the code sees is the box, not the machine."""
import os
import platform

print(f"Hello from Python {platform.python_version()} on '{os.uname().nodename}'.")
print(f"I am process {os.getpid()}, user {os.getuid()}, in {os.getcwd()}.")
print("Folders here:", " ".join(sorted(os.listdir("/"))))
