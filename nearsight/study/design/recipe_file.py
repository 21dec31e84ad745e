"""Read recipes: small Python files with the conditions of a study and its question.

A file in studies/ has a docstring and a function ``study(scale) -> Study``, or ``study()`` if it
has one scale. The first line of the docstring is the question. Lines that begin with Command,
Hardware, Time, Expected and Laptop follow; Laptop says what the laptop scale is and what it cannot
show. Everything that a condition changes is in its protocol.
"""

from __future__ import annotations

import importlib.util
import inspect
import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, get_args

from nearsight.core import UserError, suggestion
from nearsight.measure.catalogue import GRID_FREE, STUDY_NUMBERS, heading_of
from nearsight.protocol import Protocol, shorten
from nearsight.study.design.stages import DEFAULT_STAGES, complete_stages

INSTALLED = Path(__file__).parents[1] / "recipes"  # in a wheel; see pyproject.toml
FOLDER = INSTALLED if INSTALLED.is_dir() else Path(__file__).parents[3] / "studies"
MOST = 10**6  # seeds, processes or epochs of a study
LINES = ("Command", "Hardware", "Time", "Expected", "Laptop", "Needs")
Scale = Literal["laptop", "paper"]  # a few hours on two cores, or the scale of the paper
SCALES: tuple[Scale, ...] = get_args(Scale)
FACTOR_NAMES = {
    "autoaugment": "AutoAugment", "cutmix": "CutMix", "labelsmoothing": "label smoothing",
}  # fmt: skip
Level = str | float | bool


@dataclass(frozen=True)
class Condition:
    """A protocol, with its level of every factor of the study."""

    factors: Mapping[str, Level]
    protocol: Protocol

    def __post_init__(self) -> None:
        if not isinstance(self.factors, Mapping) or not isinstance(self.protocol, Protocol):
            raise UserError(
                "a Condition takes a dictionary of factors and a Protocol, but it got "
                f"{type(self.factors).__name__} and {type(self.protocol).__name__}"
            )
        for name, level in self.factors.items():
            if not isinstance(name, str) or not isinstance(level, str | float | int):
                raise UserError(
                    f"the factor {name!r} has the level {level!r}, but a name must be text, and a "
                    "level must be text, a number, True or False"
                )
            if isinstance(level, float) and not math.isfinite(level):
                raise UserError(
                    f"the factor {name!r} has the level {level}, which is not a finite number; "
                    "give a finite one"
                )

    @property
    def label(self) -> str:
        """The name for tables and messages: all factors with their levels."""
        return ", ".join(f"{name} {level_text(level)}" for name, level in self.factors.items())


@dataclass(frozen=True)
class PrimaryContrast:
    """The comparison that a study is made for, chosen before it runs.

    Every condition with the levels ``high`` is compared with the condition that has the levels
    ``low`` and is otherwise the same. The differences are averaged for each seed.

    Args:
        value: The name of the number that is compared, such as ``min_mad`` or ``accuracy``.
        high: Levels of factors, such as ``{"cutmix": True}``.
        low: Levels of the same factors, with which ``high`` is compared. A factor that has the same
            level in both restricts the comparison to conditions with this level.
    """

    value: str
    high: Mapping[str, Level]
    low: Mapping[str, Level]

    def __str__(self) -> str:
        """Describe the number, the levels that are compared, and the conditions.

        >>> print(PrimaryContrast("min_mad", {"cutmix": True}, {"cutmix": False}))
        min MAD, CutMix on - off
        """
        compared = [
            f"{factor_text(name)} {level_text(level)} - {level_text(self.low[name])}"
            for name, level in self.high.items()
            if self.low[name] != level
        ]
        return ", ".join([heading_of(self.value), *compared, *self.restrictions])

    def side(self, levels: Mapping[str, Level]) -> str:
        """Describe the levels of one side of the comparison, such as ``CutMix on``."""
        return ", ".join(
            f"{factor_text(name)} {level_text(level)}"
            for name, level in levels.items()
            if self.low[name] != self.high[name]
        )

    @property
    def restrictions(self) -> list[str]:
        """Describe the levels that both sides share, to which the comparison is restricted."""
        return [
            f"{factor_text(name)} {level_text(level)}"
            for name, level in self.high.items()
            if self.low[name] == level
        ]


@dataclass(frozen=True)
class Study:
    """Conditions that are compared, each with every seed.

    Args:
        conditions: The conditions to compare.
        num_seeds: The number of seeds, unless the user gives seeds.
        stages: The names of the stages that every cell runs (stages.py).
        settings: The settings of stages that differ from their defaults, by the name of the stage,
            such as ``{"measure": {"num_images": 256}}``.
        processes: The number of processes of a cell; a cell of several is a torchrun job.
        primary: The one comparison that the study is made for. It has its own 95 % interval, while
            the intervals of all other comparisons are simultaneous. None if there is no such one.
        virtual_patience: If given, the results also show every run as if training had stopped after
            this many epochs without a better validation accuracy. For runs that train to the end.
    """

    conditions: tuple[Condition, ...]
    num_seeds: int = 3
    stages: tuple[str, ...] = DEFAULT_STAGES
    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    processes: int = 1
    primary: PrimaryContrast | None = None
    virtual_patience: int | None = None

    def __post_init__(self) -> None:
        self._check_kinds()
        complete = complete_stages(self.stages, self.settings)
        try:
            json.dumps(complete, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise UserError(
                f"the settings of the stages must be values that JSON can hold ({error}); give "
                "numbers, text, lists and dictionaries"
            ) from None
        if not self.conditions:
            raise UserError("a study needs at least one condition; add one to its recipe")
        names = {tuple(condition.factors) for condition in self.conditions}
        if len(names) > 1:
            raise UserError(
                f"all conditions must have the same factors, but they have {sorted(names)}"
            )
        levels = [tuple(condition.factors.values()) for condition in self.conditions]
        if len(set(levels)) < len(levels):
            raise UserError(
                "two conditions have the same levels of all factors; give each of them only once"
            )
        if self.primary is not None:
            self._check_primary(self.primary)

    def _check_kinds(self) -> None:
        counts = {"num_seeds": self.num_seeds, "processes": self.processes}
        if self.virtual_patience is not None:
            counts["virtual_patience"] = self.virtual_patience
        for name, count in counts.items():
            if not isinstance(count, int) or isinstance(count, bool) or not 1 <= count <= MOST:
                raise UserError(
                    f"{name} must be a whole number from 1 to {MOST:,}, but it is {shorten(count)}"
                )
        lists = (
            ("conditions", self.conditions, Condition),
            ("stages", self.stages, str),
        )
        for name, found, kind in lists:
            if not isinstance(found, tuple | list) or not all(isinstance(x, kind) for x in found):
                raise UserError(
                    f"{name} must be a tuple of {kind.__name__}, but it is {shorten(found)}"
                )
        settings = self.settings
        if not isinstance(settings, Mapping) or not all(
            isinstance(x, Mapping) for x in settings.values()
        ):
            raise UserError(
                "settings must be a dictionary with a dictionary for each stage, but it is "
                f"{shorten(settings)}"
            )
        if self.primary is not None and not isinstance(self.primary, PrimaryContrast):
            raise UserError(f"primary must be a PrimaryContrast, but it is {shorten(self.primary)}")

    def _check_primary(self, primary: PrimaryContrast) -> None:
        known = [x.name for x in (*STUDY_NUMBERS, *GRID_FREE)]
        if primary.value not in known:
            raise UserError(
                f"the primary contrast is on {primary.value!r}, but it must be on one of "
                f"{', '.join(known)}{suggestion(primary.value, known)}"
            )
        if primary.high.keys() != primary.low.keys() or primary.high == primary.low:
            raise UserError(
                "the primary contrast must give two levels of the same factors, but it gives "
                f"{dict(primary.high)} and {dict(primary.low)}"
            )
        for side in (primary.high, primary.low):
            if not any(side.items() <= x.factors.items() for x in self.conditions):
                raise UserError(
                    f"no condition has the levels {dict(side)} of the primary contrast; add such a "
                    "condition or change the contrast"
                )


@dataclass(frozen=True)
class Recipe:
    """A recipe file: its name, question and study."""

    name: str
    question: str
    told: Mapping[str, str]  # the paragraphs of the docstring, by their words in LINES
    module: ModuleType = field(repr=False, compare=False)

    @property
    def needs(self) -> str | None:
        """What is missing before the study can run; None if it can."""
        return self.told.get("Needs")

    @property
    def scales(self) -> tuple[Scale, ...]:
        """The scales to choose from; empty for a recipe with only one scale."""
        return SCALES if inspect.signature(self.module.study).parameters else ()

    def study(self, scale: Scale | None = None) -> Study:
        """Return the study that the recipe describes.

        Args:
            scale: "laptop" or "paper". None means the paper's scale, or the only one.

        Raises:
            UserError: If the recipe cannot run yet, has only one scale, or fails.
        """
        if self.needs:
            raise UserError(f"the study {self.name} cannot run yet: it needs {self.needs}")
        if scale is not None and not self.scales:
            raise UserError(f"the study {self.name} has only one scale; leave out --scale {scale}")
        try:
            found = self.module.study(scale or "paper") if self.scales else self.module.study()
        except UserError:
            raise
        except (Exception, SystemExit) as error:
            raise UserError(
                f"study() of the recipe {self.name} fails: {type(error).__name__}: {error}"
            ) from error
        if not isinstance(found, Study):
            raise UserError(
                f"study() of the recipe {self.name} returns {type(found).__name__}; it must return "
                "a nearsight.study.design.Study"
            )
        return found


def factor_text(name: str) -> str:
    """Return the name of a factor as pages show it."""
    return FACTOR_NAMES.get(name, name)


def level_text(level: Level) -> str:
    """Return a level of a factor as pages show it: on, off, a number or a word."""
    if isinstance(level, bool):
        return "on" if level else "off"
    return f"{level:g}" if isinstance(level, float) else str(level)


def recipes(folder: Path | None = None) -> list[Recipe]:
    """Read all recipes of a folder, in the order of their names."""
    folder = FOLDER if folder is None else Path(folder)
    files = sorted(folder.glob("*.py"))
    if not files:
        raise UserError(f"{folder} has no recipes (*.py); give another folder with --recipes DIR")
    return [read_recipe(file) for file in files]


def recipe(name: str, folder: Path | None = None) -> Recipe:
    """Read a recipe by its name or its file."""
    if name.endswith(".py"):
        if not Path(name).is_file():
            raise UserError(f"there is no recipe file {name}; `nearsight study list` lists recipes")
        return read_recipe(Path(name))
    found = {each.name: each for each in recipes(folder)}
    if name not in found:
        hint = suggestion(name, found, most=2)
        raise UserError(f"there is no study {name!r}{hint}; the studies are {', '.join(found)}")
    return found[name]


def read_recipe(file: Path) -> Recipe:
    """Read a recipe by executing its file."""
    name = file.stem.replace("_", "-")
    spec = importlib.util.spec_from_file_location(f"nearsight_recipe_{file.stem}", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise UserError(
            f"the recipe {file} cannot be read: {type(error).__name__}: {error}"
        ) from error
    if not (module.__doc__ or "").strip() or not callable(getattr(module, "study", None)):
        raise UserError(
            f"the recipe {file} needs a docstring and a function study(); add what is missing"
        )
    question, *rest = str(module.__doc__).strip().splitlines()
    return Recipe(name, question, told_lines("\n".join(rest)), module)


def told_lines(text: str) -> dict[str, str]:
    r"""Return the paragraphs of a docstring that begin with a word of LINES, each on one line.

    >>> told_lines("Time: 3 h\n  on 2 cores\nExpected: nothing")
    {'Time': '3 h on 2 cores', 'Expected': 'nothing'}
    """
    found = re.split(rf"^({'|'.join(LINES)}):", text, flags=re.MULTILINE)[1:]
    return {key: " ".join(value.split()) for key, value in zip(found[::2], found[1::2])}
