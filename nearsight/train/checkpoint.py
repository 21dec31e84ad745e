"""Write and load checkpoints that survive a kill at any moment, without pickle.

checkpoint/step-00000313/tensors.safetensors   weights, optimizer state, best weights
checkpoint/step-00000313/state.json            counters, the log so far, and sha256 of both

A checkpoint is written to a temporary folder, synced file by file, and renamed. The newest two are
kept. Both hashes are checked when a checkpoint is loaded. If it is damaged, a message says so, and
the checkpoint before it is used.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypedDict

import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor

import nearsight
from nearsight.core import UserError, World, sync, write_bytes
from nearsight.native import status
from nearsight.protocol import Protocol
from nearsight.runs import SCHEMA_VERSION, read_json, write_json
from nearsight.train.parallel import Parallel

KEPT = 2
TENSORS, STATE = "tensors.safetensors", "state.json"


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _canonical(state: dict[str, Any]) -> bytes:
    return json.dumps(state, sort_keys=True).encode()


def checkpoints(folder: Path) -> list[Path]:
    """List the complete checkpoints, oldest first."""
    return sorted(folder.glob("step-*"))


def save_checkpoint(
    folder: Path, step: int, tensors: dict[str, Tensor], state: dict[str, Any]
) -> Path:
    """Write a checkpoint whole or not at all, then delete all but the newest two."""
    folder.mkdir(exist_ok=True)
    temporary = folder / f".tmp-{os.getpid()}"
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir()
    try:
        content = safetensors.torch.save(tensors)
        write_bytes(temporary / TENSORS, content)
        hashes = {"tensors": _hash(content), "state": _hash(_canonical(state))}
        versioned = {"schema_version": SCHEMA_VERSION, "sha256": hashes, "state": state}
        write_json(temporary / STATE, versioned)
        final = folder / f"step-{step:08d}"
        shutil.rmtree(final, ignore_errors=True)
        temporary.rename(final)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    sync(folder)
    for old in checkpoints(folder)[:-KEPT]:
        shutil.rmtree(old)
    return final


def load_checkpoint(
    folder: Path, say: Callable[[str], None]
) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
    """Return the tensors and the state of the newest undamaged checkpoint; None if there is none.

    Args:
        folder: The folder of the checkpoints.
        say: Called with a sentence about each damaged checkpoint.
    """
    for leftover in folder.glob(".tmp-*"):
        shutil.rmtree(leftover, ignore_errors=True)
    for path in reversed(checkpoints(folder)):
        try:
            return _verified(path)
        except (ValueError, OSError, KeyError, TypeError, SafetensorError) as error:
            say(f"checkpoint {path} is damaged ({error}); using the one before it")
    return None


def _verified(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    content = read_json(path / STATE)
    tensors = (path / TENSORS).read_bytes()
    if _hash(tensors) != content["sha256"]["tensors"]:
        raise UserError(f"{TENSORS} does not match its checksum")
    if _hash(_canonical(content["state"])) != content["sha256"]["state"]:
        raise UserError(f"{STATE} does not match its checksum")
    return safetensors.torch.load(tensors), content["state"]


class Way(TypedDict):
    """How the model is run; it decides whether a resumed run can end with the same bytes."""

    compiled: bool
    parallel: Parallel


def can_be_exact(protocol: Protocol, world: World, way: Way) -> bool:
    """Tell whether a run gives the same bytes each time: only eager float32 or float64 on CPU."""
    whole = protocol.precision in ("float32", "float64")
    return world.device.type == "cpu" and whole and not way["compiled"]


def conditions(world: World, way: Way, exact: bool) -> dict[str, Any]:
    """Return what must stay the same for a resumed run to end with the same bytes."""
    native = status()
    return {
        "device": world.device.type,
        "threads": torch.get_num_threads(),
        "processes": world.size,
        "torch": torch.__version__,
        "nearsight": nearsight.__version__,
        "native_library": f"{native.compiler}, {native.instructions}" if native.loaded else None,
        "exact": exact,
        **way,
    }


def inexact_note(before: dict[str, Any], now: dict[str, Any]) -> str | None:
    """Return a note if a run resumed under ``now`` cannot end with the same bytes, else None."""
    before = {"nearsight": now["nearsight"]} | before  # not in checkpoints of version 0.1.0
    changed = [key for key, value in now.items() if before.get(key) != value]
    if not now["exact"]:
        return "not bit-exact: only eager float32 on CPU is"
    if changed == ["exact"]:
        return "not bit-exact: an earlier resume changed the conditions"
    return f"not bit-exact: {', '.join(changed)} changed" if changed else None
