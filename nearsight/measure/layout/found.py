"""Find layouts by measuring a model, and keep them for each architecture and image size.

Positions of tokens do not depend on weights, so each layout is found only once. It is kept in
memory, and in the output folder of a command that uses ``keep_places``.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from nearsight.core import write_bytes
from nearsight.measure.capture import AttentionCall, Place
from nearsight.measure.layout.placing import (
    Fold,
    ModelPlaces,
    Placed,
    PlacedCall,
    Unplaced,
    place_model,
)
from nearsight.measure.layout.tokens import Layout, Skipped, refuse
from nearsight.models.layers import Grid

VERSION = 3  # of the method and of the file; positions found by another version are found again
PLACES_FILE = "places.json"
LIBRARIES = ("torch", "timm", "torchvision", "transformers")
SIMPLE = (bool, int, float, str, type(None), torch.Size)


@dataclass(frozen=True)
class _Keeping:
    """Where to keep layouts, and whom to tell about progress."""

    folder: Path | None = None
    progress: Callable[[int, int], None] | None = None


_keeping: ContextVar[_Keeping] = ContextVar("keeping", default=_Keeping())  # noqa: B039
_known: dict[str, ModelPlaces] = {}  # by fingerprint of architecture and image size


@contextmanager
def keep_places(
    folder: Path | None = None, progress: Callable[[int, int], None] | None = None
) -> Iterator[None]:
    """Store layouts found inside the ``with`` block in a folder, and report progress.

    Args:
        folder: An existing folder for ``places.json``; by default the folder of an enclosing block.
        progress: Called with the number of forward passes done and the largest possible number; by
            default the function of an enclosing block.
    """
    outer = _keeping.get()
    token = _keeping.set(_Keeping(folder or outer.folder, progress or outer.progress))
    try:
        yield
    finally:
        _keeping.reset(token)


def find_layout(call: AttentionCall) -> Layout | Skipped:
    """Return where the tokens of a call are, found by measuring the model that made it.

    Raises:
        UserError: If the model's tokens have no fixed positions, or the model made other attention
            calls than now when they were located.
    """
    images = [x for x in call.path[0].inputs if isinstance(x, Tensor) and x.ndim == 4]
    if not images:
        refuse(call, "the positions of its tokens must be measured, for which the model needs "
                     "images [n, 3, height, width]; give it such images")  # fmt: skip
    places = model_places(call.path[0])
    if places.refusal:
        refuse(call, places.refusal)
    entry = places.calls[call.number] if call.number < len(places.calls) else None
    if entry is None or entry.name != call.name or entry.sizes[-2:] != call.sizes[-2:]:
        refuse(call, "the model made other attention calls when the positions of its tokens were "
                     "measured, so it does not run the same layers for every image")  # fmt: skip
    placed = entry.found
    if isinstance(placed, Unplaced):
        return Skipped(placed.reason)
    note = f"Places were found by measuring (gap {placed.confidence:.2f} cells)."
    if placed.note:
        note = f"{note} {placed.note}"
    return Layout(placed.grid, placed.queries, placed.keys, placed.cells, placed.fold, note)


def model_places(place: Place) -> ModelPlaces:
    """Return the positions of a model's tokens for images of this size, measured now or before."""
    key = fingerprint(place)
    if key not in _known:
        keeping = _keeping.get()
        stored = _read(keeping.folder, key)
        _known[key] = stored or place_model(place, keeping.progress)
        if keeping.folder and not stored:
            _write(keeping.folder, key, _known[key])
    return _known[key]


def fingerprint(place: Place) -> str:
    """Return a hash of all that positions depend on: code, sizes, options and tables of indices.

    It does not depend on weights.
    """
    model = place.module
    facts: list[Any] = [VERSION, [(x, _version(x)) for x in LIBRARIES]]
    facts += [(tuple(x.shape[1:]) if isinstance(x, Tensor) else repr(x)) for x in place.inputs]
    facts.append(place.keywords)
    for name, module in model.named_modules():
        kind = type(module)
        facts.append((name, kind.__module__, kind.__qualname__, _code(kind)))
        facts.append(
            [(key, value) for key, value in sorted(vars(module).items()) if _is_option(key, value)]
        )
        facts += [(key, tuple(x.shape)) for key, x in module._parameters.items() if x is not None]
        facts += [(key, _table(x)) for key, x in module._buffers.items() if x is not None]
    return hashlib.sha256(repr(facts).encode()).hexdigest()


def _version(library: str) -> str | None:
    """Return the version of a library; None if it is not installed."""
    try:
        return metadata.version(library)
    except metadata.PackageNotFoundError:
        return None


def _code(kind: type[nn.Module]) -> str:
    """Return a hash of the code of a module's ``forward``."""
    code = getattr(kind.forward, "__code__", None)
    return hashlib.sha256(repr((code.co_code, code.co_names)).encode()).hexdigest() if code else ""


def _is_option(key: str, value: Any) -> bool:
    """Return whether an attribute of a module is a plain setting."""
    if key in ("training", "name_or_path") or key.startswith("__"):
        return False
    if isinstance(value, (tuple, list)):
        return all(isinstance(x, SIMPLE) for x in value)
    return isinstance(value, SIMPLE)


def _table(buffer: Tensor) -> Any:
    """Return the hash of a table of indices, or the size of any other buffer."""
    if buffer.is_floating_point() or buffer.is_complex():
        return tuple(buffer.shape)
    return hashlib.sha256(buffer.detach().cpu().contiguous().numpy().tobytes()).hexdigest()


def _read(folder: Path | None, key: str) -> ModelPlaces | None:
    """Return the positions kept in a folder under a key; None without any that can be read."""
    path = folder / PLACES_FILE if folder else None
    if path is None or not path.exists():
        return None
    try:
        contents = json.loads(path.read_text())
        return _parse(contents[key]) if key in contents else None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None  # a broken file is treated as if it were missing


def _write(folder: Path, key: str, places: ModelPlaces) -> None:
    """Add positions to the file in a folder, under a key."""
    path = folder / PLACES_FILE
    try:
        contents = json.loads(path.read_text()) if path.exists() else {}
    except (ValueError, RecursionError):
        contents = {}
    contents = contents if isinstance(contents, dict) else {}
    contents[key] = _contents(places)
    write_bytes(path, json.dumps(contents).encode())


def _contents(places: ModelPlaces) -> dict[str, Any]:
    """Return positions as JSON contents."""
    calls = []
    for call in places.calls:
        placed = call.found
        entry: dict[str, Any] = {"name": call.name, "kind": call.kind, "sizes": call.sizes}
        entry |= {"confidence": placed.confidence}
        if isinstance(placed, Placed):
            entry |= {
                "grid": [placed.grid.rows, placed.grid.cols],
                "queries": placed.queries.tolist(),
                "keys": placed.keys.tolist(),
                "cells": placed.cells.tolist(),
                "fold": placed.fold.dims,
                "extent": placed.extent,
                "note": placed.note,
            }
        else:
            entry |= {"reason": placed.reason, "is_patches": placed.is_patches}
        calls.append(entry)
    return {"num_forwards": places.num_forwards, "refusal": places.refusal, "calls": calls}


def _parse(contents: dict[str, Any]) -> ModelPlaces:
    """Restore positions from JSON contents."""
    calls = []
    for entry in contents["calls"]:
        placed: Placed | Unplaced
        if "reason" in entry:
            placed = Unplaced(entry["reason"], entry["confidence"], entry["is_patches"])
        else:
            dims = tuple(tuple((x, n) for x, n in dim) for dim in entry["fold"])
            placed = Placed(
                Grid(*entry["grid"]),
                torch.tensor(entry["queries"]),
                torch.tensor(entry["keys"]),
                torch.tensor(entry["cells"], dtype=torch.float64),
                Fold(dims),
                entry["confidence"],
                (entry["extent"][0], entry["extent"][1]),
                entry["note"],
            )
        calls.append(PlacedCall(entry["name"], entry["kind"], tuple(entry["sizes"]), placed))
    return ModelPlaces(tuple(calls), contents["num_forwards"], contents["refusal"])
