# SPDX-License-Identifier: Apache-2.0
"""start: what the keeper runs. A script is compiled anew each time, a module is not: so this one is short."""

import sys

sys.path.insert(0, __file__.rpartition("/")[0])
import zygote

del sys.path[0], sys.modules["zygote"]      # neither shall be in the way of user code's own
zygote.main()
