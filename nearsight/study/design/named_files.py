"""Files of weights that a protocol names: a start to fine-tune from, a teacher.

Their bytes decide a cell's numbers, so its key has their hash in place of their path. "pretrained"
stays a word: what the hub gives for it is hashed when a run starts, in its run.json.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from nearsight.protocol.schema import Protocol
from nearsight.runs.folder import WEIGHTS, file_hash

WORDS = ("pretrained", "random")


def absolute(protocol: Protocol) -> Protocol:
    """The same with absolute paths: a worker may start in another folder."""
    model, teaching = protocol.model, protocol.distillation
    if model.weights is not None:
        model = replace(model, weights=str(Path(model.weights).resolve()))
    if teaching is not None and teaching.weights not in WORDS:
        teaching = replace(teaching, weights=str(Path(teaching.weights).resolve()))
    return replace(protocol, model=model, distillation=teaching)


def named_files(protocol: Protocol) -> dict[str, Path]:
    """By setting, the file of weights that it names; of a run's folder the weights in it."""
    teaching = protocol.distillation
    named = {"model.weights": protocol.model.weights}
    if teaching is not None and teaching.weights not in WORDS:
        named["distillation.weights"] = teaching.weights
    paths = {setting: Path(path) for setting, path in named.items() if path is not None}
    return {setting: x / WEIGHTS if x.is_dir() else x for setting, x in paths.items()}


def named_hashes(protocol: Protocol) -> dict[str, str]:
    """By setting, the hash of the file's bytes."""
    found = {}
    for setting, path in named_files(protocol).items():
        if not path.is_file():
            raise ValueError(f"expected the weights of {setting}, but there is no {path}")
        found[setting] = file_hash(path)
    return found
