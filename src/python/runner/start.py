# SPDX-License-Identifier: Apache-2.0
"""start: the script that the keeper runs. Scripts are compiled at every start, modules are not, so this is short."""

import sys

import zygote                               # sys.path begins with the folder of this file

del sys.path[0], sys.modules["zygote"]      # leave these names to user code
zygote.main()
