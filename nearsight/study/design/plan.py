"""Cells: every condition with every seed, keyed by everything that decides its numbers.

Two cells with one key would end with the same bytes, so a finished cell is never run again, and one
of another study can be taken over. A key hashes protocol, seed, the bytes of the data and of files
of weights that the protocol names, device, threads, torch's version, what is measured, and NUMBERS,
which changes when our own numbers do.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

from nearsight.core import UserError
from nearsight.protocol import Protocol, protocol_from
from nearsight.runs import TEACHER_WORDS, WEIGHTS, file_hash, settle
from nearsight.study.design.recipe_file import Condition, Level, Study

NUMBERS = 1  # of this package's way to numbers; see the changelog
THREADS = 1  # of every cell in every engine, so that results do not depend on the engine


def named_files(protocol: Protocol) -> dict[str, Path]:
    """By setting, the file of weights that it names; of a run's folder the weights in it."""
    teaching = protocol.distillation
    named = {"model.weights": protocol.model.weights}
    if teaching is not None and teaching.weights not in TEACHER_WORDS:
        named["distillation.weights"] = teaching.weights
    paths = {setting: Path(path) for setting, path in named.items() if path is not None}
    return {setting: x / WEIGHTS if x.is_dir() else x for setting, x in paths.items()}


def named_hashes(protocol: Protocol) -> dict[str, str]:
    """By setting, the hash of the file's bytes."""
    found = {}
    for setting, path in named_files(protocol).items():
        if not path.is_file():
            raise UserError(f"expected the weights of {setting}, but there is no {path}")
        found[setting] = file_hash(path)
    return found


@dataclass(frozen=True)
class Cell:
    """One run of a study: train, then measure."""

    factors: Mapping[str, Level]
    protocol: Protocol
    seed: int
    data_hash: str
    device: str
    torch: str
    measured_images: int | None
    metrics: tuple[str, ...]
    processes: int = 1  # more than one: the cell is a torchrun job
    weights: Mapping[str, str] = field(default_factory=dict)  # hashes of named files, by setting

    @property
    def label(self) -> str:
        return f"{Condition(self.factors, self.protocol).label}, seed {self.seed}"

    @property
    def key(self) -> str:
        """16 hex digits of everything that decides the numbers; the names of factors do not."""
        decides = self.contents()
        del decides["factors"]
        for setting, digest in decides.pop("weights").items():
            part, name = setting.split(".")
            decides["protocol"][part][name] = digest  # in place of the path
        if self.processes == 1:  # as in keys from before there were torchrun cells
            del decides["processes"]
        text = json.dumps(decides | {"numbers": NUMBERS, "threads": THREADS}, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def contents(self) -> dict[str, Any]:
        """As cell.json has it."""
        return {
            "factors": dict(self.factors),
            "protocol": asdict(self.protocol),
            "seed": self.seed,
            "data_hash": self.data_hash,
            "device": self.device,
            "torch": self.torch,
            "measured_images": self.measured_images,
            "metrics": list(self.metrics),
            "processes": self.processes,
            "weights": dict(self.weights),
        }

    @classmethod
    def of(cls, contents: dict[str, Any]) -> Cell:
        """The cell of a cell.json."""
        known = {x: contents[x] for x in cls.__dataclass_fields__ if x in contents}
        known["protocol"] = protocol_from(known["protocol"])
        return cls(**known | {"metrics": tuple(known["metrics"])})


def cells_of(
    study: Study,
    seeds: Sequence[int],
    data_hashes: Mapping[str, str],
    device: str,
    hashes_of: Callable[[Protocol], dict[str, str]] = named_hashes,
) -> list[Cell]:
    """Every condition with every seed, seeds outermost: what is done first has all conditions.

    ``data_hashes``: by data set's name, as ``load_dataset`` finds them. ``hashes_of`` reads the
    files that a protocol names.
    """
    if not seeds:
        raise UserError("expected at least one seed, got none")
    version = metadata.version("torch")
    settled = [settle(condition.protocol)[0] for condition in study.conditions]
    hashes = [hashes_of(protocol) for protocol in settled]
    found = [
        Cell(
            factors=condition.factors,
            protocol=protocol,
            seed=seed,
            data_hash=data_hashes[condition.protocol.data.name],
            device=device,
            torch=version,
            measured_images=study.measured_images,
            metrics=study.metrics,
            processes=study.processes,
            weights=weights,
        )
        for seed in seeds
        for condition, protocol, weights in zip(study.conditions, settled, hashes)
    ]
    keys: dict[str, Cell] = {}
    for cell in found:
        if cell.key in keys:
            raise UserError(
                f"expected conditions with different protocols, got the same for "
                f"{keys[cell.key].label} and {cell.label}"
            )
        keys[cell.key] = cell
    return found
