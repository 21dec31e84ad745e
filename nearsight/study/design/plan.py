"""Plan cells: every condition with every seed, with a key for all that decides the numbers.

Two cells with the same key would produce the same bytes, so a finished cell is never run again and
can be reused by another study. The key is a hash of the protocol, the seed, the bytes of the data
and of weight files that the protocol names, the device, the numbers of threads and processes, the
versions of torch and timm, whether the compiled kernel is used, the stages with their settings, and
NUMBERS, which changes when the numbers of this package change.

The list of what goes into a key is its format. Format 1 had no kernel, no timm and no stages. A
stored cell keeps its key. ``keep_stored`` recognises stored cells by their contents, so that a
study of an older format, or one that was planned before a setting existed, continues where it
stopped.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from importlib import metadata
from pathlib import Path
from typing import Any

from nearsight.core import UserError
from nearsight.measure.catalogue import DEFAULT_METRICS
from nearsight.protocol import Protocol, protocol_from, stored_settings
from nearsight.runs import TEACHER_WORDS, WEIGHTS, Stage, file_hash, settle
from nearsight.study.design.recipe_file import Condition, Level, Study
from nearsight.study.design.stages import DEFAULT_STAGES, complete_stages, stages_named

KEY_FORMAT = 2
NUMBERS = 3  # raised when the same settings give other numbers; see the changelog
THREADS = 1  # in every cell and engine, so that results do not depend on the engine


def named_files(protocol: Protocol) -> dict[str, Path]:
    """Return the weight files that a protocol names, by setting.

    If a setting names a run folder, its file is the weights of that run.
    """
    teaching = protocol.distillation
    named = {"model.weights": protocol.model.weights}
    if teaching is not None and teaching.weights not in TEACHER_WORDS:
        named["distillation.weights"] = teaching.weights
    paths = {setting: Path(path) for setting, path in named.items() if path is not None}
    return {setting: x / WEIGHTS if x.is_dir() else x for setting, x in paths.items()}


def named_hashes(protocol: Protocol) -> dict[str, str]:
    """Return the hash of each weight file that a protocol names, by setting.

    Raises:
        UserError: If a file does not exist.
    """
    found = {}
    for setting, path in named_files(protocol).items():
        if not path.is_file():
            raise UserError(
                f"{setting} names the weight file {path}, which does not exist; "
                "give the path of a weight file or of a run folder"
            )
        found[setting] = file_hash(path)
    return found


@dataclass(frozen=True)
class Software:
    """The software that decides numbers; None if a stored cell does not record it.

    The CPU is not part of it, but is recorded with every run.
    """

    torch: str
    timm: str | None = None
    kernel: bool | None = None  # whether the compiled code is used
    numbers: int | None = None  # NUMBERS

    @classmethod
    def here(cls, device: str) -> Software:
        """Return the software that a cell on this device would use in this process."""
        from nearsight.native import load_library

        kernel = device == "cpu" and load_library() is not None
        return cls(metadata.version("torch"), metadata.version("timm"), kernel, NUMBERS)

    def differs(self, other: Software) -> list[str]:
        """Describe the differences from another; what either does not record counts as equal."""
        return [
            f"{text.format(_word(mine))} (here {_word(yours)})"
            for text, mine, yours in self._pairs(other)
            if None not in (mine, yours)
        ]

    def differences_from(self, here: Software) -> list[str]:
        """Describe how the software of a stored cell differs from that of this process.

        What the cell does not record counts as different.
        """
        return [
            f"{text.format(_word(there))} there, {_word(now)} here"
            for text, there, now in self._pairs(here)
        ]

    def _pairs(self, other: Software) -> list[tuple[str, Any, Any]]:
        """Return the words for every difference, and both values."""
        names = {
            "torch": "torch {}",
            "timm": "timm {}",
            "kernel": "compiled kernel: {}",
            "numbers": "nearsight's numbers {}",
        }
        pairs = [(text, getattr(self, name), getattr(other, name)) for name, text in names.items()]
        return [(text, mine, yours) for text, mine, yours in pairs if mine != yours]


def _word(value: Any) -> Any:
    words = {True: "yes", False: "no", None: "not recorded"}
    return words[value] if value is None or isinstance(value, bool) else value


@dataclass(frozen=True)
class Cell:
    """A run of a study: a condition and a seed, with the stages that it goes through."""

    factors: Mapping[str, Level]
    protocol: Protocol
    seed: int
    data_hash: str
    device: str
    software: Software
    stages: Mapping[str, Mapping[str, Any]]  # all settings of each stage, by its name
    processes: int = 1  # more than one: the cell is a torchrun job
    weights: Mapping[str, str] = field(default_factory=dict)  # hashes of named files, by setting
    stored_key: str | None = field(default=None, compare=False)  # None: the cell is only planned
    key_format: int = field(default=KEY_FORMAT, compare=False)
    accepted: tuple[str, ...] = field(default=(), compare=False)  # differences of its software

    @property
    def label(self) -> str:
        """The name for tables and messages."""
        return f"{Condition(self.factors, self.protocol).label}, seed {self.seed}"

    @property
    def key(self) -> str:
        """The key under which the cell is or will be stored.

        It is a hash, in 16 hex digits, of everything that decides the numbers. The names of the
        factors are not part of it.
        """
        if self.stored_key is not None:
            return self.stored_key
        decides = self.contents()
        del decides["factors"]
        for setting, digest in decides.pop("weights").items():
            part, name = setting.split(".")
            decides["protocol"][part][name] = digest  # in place of the path
        decides |= {"key_format": self.key_format, "threads": THREADS}
        text = json.dumps(decides, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @property
    def stage_objects(self) -> list[Stage]:
        """The stages of the cell."""
        return stages_named(list(self.stages))

    def contents(self) -> dict[str, Any]:
        """Return the contents of cell.json, without the key."""
        return {
            "factors": dict(self.factors),
            "protocol": stored_settings(self.protocol),
            "seed": self.seed,
            "data_hash": self.data_hash,
            "device": self.device,
            "software": asdict(self.software),
            "stages": {name: dict(settings) for name, settings in self.stages.items()},
            "processes": self.processes,
            "weights": dict(self.weights),
        }

    @classmethod
    def of(cls, contents: Mapping[str, Any], key: str) -> Cell:
        """Make a cell from the contents of a cell.json that is stored under ``key``."""
        given = {x.name: contents[x.name] for x in fields(cls) if x.name in contents}
        if "software" not in contents:
            given["key_format"] = 1
            given["software"] = {"torch": contents["torch"]}
            metrics = [*DEFAULT_METRICS, *contents["metrics"]]
            measured = {"num_images": contents["measured_images"]}
            measured["metrics"] = list(dict.fromkeys(metrics))
            given["stages"] = complete_stages(DEFAULT_STAGES, {"measure": measured})
        else:  # settings that were added later have their defaults
            later = complete_stages(list(given["stages"]), {})
            given["stages"] = {name: later[name] | x for name, x in given["stages"].items()}
        given["protocol"] = protocol_from(given["protocol"])
        given["software"] = Software(**given["software"])
        given["accepted"] = tuple(contents.get("accepted", ()))
        return cls(**given | {"stored_key": key})

    def is_like(self, stored: Cell) -> bool:
        """Return whether a stored cell is this one, as far as its record says.

        Differences of software that were accepted when the cell was copied do not count.
        """
        same = bool(stored.accepted) or not stored.software.differs(self.software)
        return same and self.is_like_but_for_software(stored)

    def is_like_but_for_software(self, stored: Cell) -> bool:
        """Return whether a stored cell is this one, apart from its software."""
        return replace(stored, factors=self.factors, software=self.software) == self


def cells_of(
    study: Study,
    seeds: Sequence[int],
    data_hashes: Mapping[str, str],
    device: str,
    hashes_of: Callable[[Protocol], dict[str, str]] = named_hashes,
) -> list[Cell]:
    """Return the cells of a study: all conditions with the first seed, then with the second.

    Args:
        study: The conditions and the stages.
        seeds: The seeds.
        data_hashes: The hash of every data set, by its name.
        device: The device on which cells run.
        hashes_of: A function that returns the hashes of the weight files that a protocol names.

    Raises:
        UserError: If there is no seed, or two conditions have the same protocol.
    """
    if not seeds:
        raise UserError("a study needs at least one seed; give one with --seeds")
    software = Software.here(device)
    stages = complete_stages(study.stages, study.settings)
    settled = [settle(condition.protocol)[0] for condition in study.conditions]
    hashes = [hashes_of(protocol) for protocol in settled]
    found = [
        Cell(
            factors=condition.factors,
            protocol=protocol,
            seed=seed,
            data_hash=data_hashes[condition.protocol.data.name],
            device=device,
            software=software,
            stages=stages,
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
                f"{keys[cell.key].label} and {cell.label} have the same protocol, so they would be "
                "the same run; change one of the conditions"
            )
        keys[cell.key] = cell
    return found


def keep_stored(cells: Sequence[Cell], stored: Sequence[Cell]) -> list[Cell]:
    """Replace planned cells by the stored cells with the same contents.

    A stored cell keeps its key and the record of its software. Its factors become those of the
    plan, because a recipe may have renamed them.
    """
    by_key = {cell.key: cell for cell in stored}

    def kept(cell: Cell) -> Cell:
        if cell.key in by_key:
            return cell
        like = next((each for each in stored if cell.is_like(each)), None)
        return cell if like is None else replace(like, factors=cell.factors)

    return [kept(cell) for cell in cells]
