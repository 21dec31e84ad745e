"""Write the results of a study to one file, summary.json.

The file holds the numbers of every cell; the mean, deviation, n and 95 % interval over seeds of
every condition; and the difference between every condition and the first one. The effects of a
factorial are given at the end of training, at the last epoch that all runs reached (matched steps),
at the lowest training loss that all runs reached and, if the recipe asks for it, as if every run
had been stopped early.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from nearsight.core import UserError
from nearsight.runs import SCHEMA_VERSION
from nearsight.runs.records import SUMMARY_FILE
from nearsight.stats import deviation, over_seeds, paired_differences, simultaneous_level
from nearsight.study.analyse.effects import (
    Effects,
    num_simultaneous,
    simultaneous_estimate,
    study_effects,
)
from nearsight.study.analyse.factorials import Effect, Factorial
from nearsight.study.analyse.image_effects import READERS, summary_key
from nearsight.study.analyse.loaded import FinishedCell, LoadedCell, LoadedStudy
from nearsight.study.analyse.outcome import Factors, Outcome, by_condition, condition_text
from nearsight.study.analyse.primary import PrimaryResult, primary_result
from nearsight.study.analyse.results import numbers_shown, outcomes, settings_of, values_of
from nearsight.study.analyse.seed_losses import losses_over_seeds
from nearsight.study.analyse.shares import seed_shares


def write_summary(study: LoadedStudy, effects: Sequence[Effects] | None = None) -> Path:
    """Write summary.json for the finished cells; ``effects`` are computed unless given."""
    contents = {"schema_version": SCHEMA_VERSION, **summary(study, effects)}
    return SUMMARY_FILE.write(study.path, contents)


def summary(study: LoadedStudy, effects: Sequence[Effects] | None = None) -> dict[str, Any]:
    """Return the contents of summary.json."""
    found = outcomes(study)
    if not found:
        raise UserError(
            f"no cell of {study.path} is finished; "
            f"run `nearsight study run {study.record.study} --out {study.path}` first"
        )
    effects = study_effects(study) if effects is None else effects
    num, primary = num_simultaneous(effects), primary_result(study)
    return {
        "study": study.record.study,
        "cells": [_cell(x) for x in study.cells],
        "conditions": [
            {"value": value, "condition": condition_text(x.condition)}
            | {key: getattr(x, key) for key in ("mean", "sd", "low", "high", "seeds")}
            for value in (x.name for x in numbers_shown(found))
            for x in summaries(found, value)
        ],
        "primary": None if primary is None else _primary(primary),
        "num_simultaneous": num,
        "shares": [
            {"condition": condition_text(x.condition), "kind": x.kind, "count": x.count}
            | {"n": x.share.n, "low": x.share.low, "high": x.share.high}
            for x in seed_shares(found)
        ],
        "accuracy_lost": [
            {
                "condition": condition_text(x.condition),
                "heads": x.heads,
                "change": x.change,
                "per_seed": {str(seed): lost for seed, lost in x.per_seed.items()},
                "estimate": x.estimate and asdict(x.estimate),
            }
            for x in losses_over_seeds(study)
        ],
        "effects": [_factorial(x.at_end, num) for x in effects],
        "effects_at_matched_steps": [
            _factorial(x.at_steps[1], num) | {"epoch": x.at_steps[0]} for x in effects if x.at_steps
        ],
        "effects_at_matched_loss": [
            _factorial(x.at_loss[1], num) | {"loss": x.at_loss[0]} for x in effects if x.at_loss
        ],
        "effects_at_virtual_stop": [
            _factorial(x.at_stop[1], num) | {"virtual_patience": x.at_stop[0]}
            for x in effects
            if x.at_stop
        ],
        **{
            summary_key(value): [
                {"at": dict(x.at_end.fixed), "factors": list(names), **asdict(contrast)}
                for x in effects
                if x.value == value
                for names, contrast in x.over_images.items()
            ]
            for value in READERS
        },
        "differences": differences(found),
    }


def _cell(x: LoadedCell) -> dict[str, Any]:
    cell = x.cell
    facts = {"key": cell.key, "factors": dict(cell.factors), "seed": cell.seed}
    if x.files is None:
        return facts | {"failed": x.failure}
    done = FinishedCell(cell, x.files)
    data = done.record.data
    return facts | {
        "values": values_of(done),
        "settings": settings_of(done),
        "data": {"name": data.name, "hash": data.hash, "num_train": data.num_train},
        "provenance": done.record.provenance.contents(),
    }


def _primary(found: PrimaryResult) -> dict[str, Any]:
    return {
        "contrast": asdict(found.contrast),
        "text": str(found.contrast),
        "per_seed": {str(seed): number for seed, number in found.per_seed.items()},
        "estimate": found.estimate and asdict(found.estimate),
        "p": found.p,
        "num_pairs": found.num_pairs,
        "at_matched_steps": found.at_steps and found.at_steps[1] and asdict(found.at_steps[1]),
        "epoch": found.at_steps[0] if found.at_steps else None,
    }


def differences(found: Sequence[Outcome]) -> list[dict[str, Any]]:
    """Return the difference between every condition and the first one, paired by seed.

    A condition needs two seeds in common with the first. Each difference has an interval of its own
    and one that is simultaneous over all differences.
    """
    rows: list[dict[str, Any]] = []
    away_of: list[list[float]] = []
    for value in (x.name for x in numbers_shown(found)):
        conditions = by_condition(found, value)
        first = tuple(sorted(found[0].factors.items()))
        for condition, numbers in conditions.items():
            away = paired_differences(numbers, conditions.get(first, {}))
            if condition == first or len(away) < 2:
                continue
            x = over_seeds(list(away.values()))
            rows.append(
                {
                    "value": value, "condition": condition_text(condition),
                    "from": condition_text(first), "mean": x.value, "low": x.low, "high": x.high,
                    "seeds": list(away),
                }
            )  # fmt: skip
            away_of.append(list(away.values()))
    for row, per_seed in zip(rows, away_of):
        x = over_seeds(per_seed, simultaneous_level(len(rows)))
        row |= {"simultaneous_low": x.low, "simultaneous_high": x.high}
    return rows


def _factorial(of: Factorial, num: int) -> dict[str, Any]:
    return {
        "value": of.value,
        "at": dict(of.fixed),
        "seeds": list(of.seeds),
        "notes": of.notes,
        "effects": [_effect(effect, num) for effect in of.effects],
    }


def _effect(effect: Effect, num: int) -> dict[str, Any]:
    x, wide = effect.estimate, simultaneous_estimate(effect, num)
    return {
        "factors": list(effect.factors),
        "per_seed": {str(seed): number for seed, number in effect.per_seed.items()},
        "estimate": None if x is None else asdict(x),
        "simultaneous": None if wide is None else asdict(wide),
        "p": effect.p,
        "holm_p": effect.holm_p,
    }


@dataclass(frozen=True)
class Summary:
    """A number of one condition over seeds; one seed has no deviation and no interval."""

    condition: Factors
    value: str
    mean: float
    sd: float | None  # n - 1
    low: float | None  # 95 % t-interval of the mean
    high: float | None
    seeds: tuple[int, ...]

    @property
    def n(self) -> int:
        """The number of seeds."""
        return len(self.seeds)


def summaries(outcomes: Iterable[Outcome], value: str) -> list[Summary]:
    """Return mean, deviation and 95 % t-interval over seeds for every condition with the number."""
    found = []
    for condition, by_seed in by_condition(outcomes, value).items():
        seeds, numbers = tuple(by_seed), list(by_seed.values())
        if len(numbers) == 1:
            found.append(Summary(condition, value, numbers[0], None, None, None, seeds))
            continue
        x = over_seeds(numbers)
        spread = deviation(numbers)
        found.append(Summary(condition, value, x.value, spread, x.low, x.high, seeds))
    return found
