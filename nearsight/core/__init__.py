"""Provide the infrastructure that every room uses and that knows nothing about attention.

The room holds files that survive a crash, file locks, suggestions for mistyped names, terminal
output, the processes of a distributed run, and the handling of signals.
"""

from __future__ import annotations

from nearsight.core.busy import slow_threads, thread_slowdown
from nearsight.core.durable_files import (
    append_bytes,
    expand_path,
    read_text,
    remove_file,
    sync,
    write_bytes,
)
from nearsight.core.errors import UserError
from nearsight.core.locks import hold_lock, is_locked
from nearsight.core.memory import is_out_of_memory, keep_freed_memory
from nearsight.core.processes import World, find_device, join_processes
from nearsight.core.signals import Interrupted, StopRequest, stop_signals
from nearsight.core.suggestions import closest, suggestion
from nearsight.core.terminal import Screen, clock, console, counting, printable, show_progress
from nearsight.core.unit import finish_unit, write_unit

__all__ = [
    "Interrupted",
    "Screen",
    "StopRequest",
    "UserError",
    "World",
    "append_bytes",
    "clock",
    "closest",
    "console",
    "counting",
    "expand_path",
    "find_device",
    "finish_unit",
    "hold_lock",
    "is_locked",
    "is_out_of_memory",
    "join_processes",
    "keep_freed_memory",
    "printable",
    "read_text",
    "remove_file",
    "show_progress",
    "slow_threads",
    "stop_signals",
    "suggestion",
    "sync",
    "thread_slowdown",
    "write_bytes",
    "write_unit",
]
