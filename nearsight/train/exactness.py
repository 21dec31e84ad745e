"""Whether a resumed run ends with the same bytes: what must not change, and a note where it did."""

from __future__ import annotations

from typing import Any, TypedDict

import torch

from nearsight.core.processes import Parallel, World
from nearsight.protocol.schema import Protocol


class Way(TypedDict):
    """How the model is called; decides whether resuming is exact."""

    compiled: bool
    parallel: Parallel


def can_be_exact(protocol: Protocol, world: World, way: Way) -> bool:
    """Only eager float32 or float64 on the CPU repeats its bytes."""
    whole = protocol.precision in ("float32", "float64")
    return world.device.type == "cpu" and whole and not way["compiled"]


def conditions(world: World, way: Way, exact: bool) -> dict[str, Any]:
    """What must not change for a resumed run to end with the same bytes."""
    return {
        "device": world.device.type,
        "threads": torch.get_num_threads(),
        "processes": world.size,
        "torch": torch.__version__,
        "exact": exact,
        **way,
    }


def inexact_note(before: dict[str, Any], now: dict[str, Any]) -> str | None:
    """A note if a run that goes on under ``now`` cannot end with the same bytes; else None."""
    changed = [key for key, value in now.items() if before.get(key) != value]
    if not now["exact"]:
        return "not bit-exact: only eager float32 on CPU is"
    if changed == ["exact"]:
        return "not bit-exact: continued under other conditions before"
    return f"not bit-exact: {', '.join(changed)} changed" if changed else None
