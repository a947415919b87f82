# SPDX-License-Identifier: Apache-2.0
"""Both clients."""

from ._async import AsyncConstrictor, AsyncExecution, AsyncSession
from ._sync import Constrictor, Execution, Session

__all__ = ["AsyncConstrictor", "AsyncExecution", "AsyncSession", "Constrictor", "Execution", "Session"]
