"""Infrastructure without any science: crash-safe files, terminal output, processes, signals."""

from __future__ import annotations

from nearsight.core.errors import UserError
from nearsight.core.files import append_bytes, held, sync, write_bytes
from nearsight.core.memory import keep_freed_memory
from nearsight.core.processes import World, find_device, joined
from nearsight.core.signals import Interrupted, StopRequest, stop_signals
from nearsight.core.terminal import clock, counting

__all__ = [
    "Interrupted",
    "StopRequest",
    "UserError",
    "World",
    "append_bytes",
    "clock",
    "counting",
    "find_device",
    "held",
    "joined",
    "keep_freed_memory",
    "stop_signals",
    "sync",
    "write_bytes",
]
