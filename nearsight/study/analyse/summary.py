"""The results of a study in one file without weights: summary.json.

Per cell its numbers; per condition mean, SD, n and 95 % interval over seeds; the effects of a
factorial, at the end of training, at the last epoch that all runs reached (matched steps) and at
the lowest training loss that all reached; the differences of every condition from the first one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from nearsight.core import UserError
from nearsight.measure.catalogue import RUN_NUMBERS
from nearsight.runs import SCHEMA_VERSION, read_record, write_json
from nearsight.stats import deviation, over_seeds, paired
from nearsight.study.analyse.effects import Effects, study_effects
from nearsight.study.analyse.extremes import EFFECTS, SUMMARY
from nearsight.study.analyse.factorials import Effect, Factorial
from nearsight.study.analyse.outcome import Factors, Outcome, by_condition, condition_text
from nearsight.study.analyse.results import outcomes, settings_of, values_of
from nearsight.study.folder import cell_folder, failure, is_finished, read_cells, read_study


def write_summary(out: Path, effects: Sequence[Effects] | None = None) -> Path:
    """Write summary.json of what is finished in a study folder; ``effects`` if known already."""
    path = Path(out) / SUMMARY
    write_json(path, {"schema_version": SCHEMA_VERSION, **summary(out, effects)})
    return path


def summary(out: Path, effects: Sequence[Effects] | None = None) -> dict[str, Any]:
    """The contents of summary.json."""
    found = outcomes(out)
    if not found:
        raise UserError(f"expected at least one finished cell in {out}, found none")
    effects = study_effects(out) if effects is None else effects
    return {
        "study": read_study(out)["study"],
        "cells": [_cell(out, cell) for cell in read_cells(out)],
        "conditions": [
            {"value": value, "condition": condition_text(x.condition)}
            | {key: getattr(x, key) for key in ("mean", "sd", "low", "high", "seeds")}
            for value in (x.name for x in RUN_NUMBERS)
            for x in summaries(found, value)
        ],
        "effects": [_factorial(x.at_end) for x in effects],
        "effects_at_matched_steps": [
            _factorial(x.at_steps[1]) | {"epoch": x.at_steps[0]} for x in effects if x.at_steps
        ],
        "effects_at_matched_loss": [
            _factorial(x.at_loss[1]) | {"loss": x.at_loss[0]} for x in effects if x.at_loss
        ],
        EFFECTS: [
            {"at": dict(x.at_end.fixed), "factors": list(names), **asdict(contrast)}
            for x in effects
            for names, contrast in x.extremes.items()
        ],
        "differences": differences(found),
    }


def _cell(out: Path, cell: Any) -> dict[str, Any]:
    folder = cell_folder(out, cell)
    facts = {"key": cell.key, "factors": dict(cell.factors), "seed": cell.seed}
    if not is_finished(folder):
        return facts | {"failed": failure(folder)}
    record = read_record(folder)
    return facts | {
        "values": values_of(folder),
        "settings": settings_of(cell, folder),
        "data": {key: record["data"][key] for key in ("name", "hash", "num_train")},
        "provenance": record["provenance"],
    }


def differences(found: Sequence[Outcome]) -> list[dict[str, Any]]:
    """Every condition minus the first one, paired by seed; needs two seeds that both have."""
    rows = []
    for value in (x.name for x in RUN_NUMBERS):
        conditions = by_condition(found, value)
        first = tuple(sorted(found[0].factors.items()))
        for condition, numbers in conditions.items():
            away = paired(numbers, conditions.get(first, {}))
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
    return rows


def _factorial(of: Factorial) -> dict[str, Any]:
    return {
        "value": of.value,
        "at": dict(of.fixed),
        "seeds": list(of.seeds),
        "notes": of.notes,
        "effects": [_effect(effect) for effect in of.effects],
    }


def _effect(effect: Effect) -> dict[str, Any]:
    x = effect.estimate
    return {
        "factors": list(effect.factors),
        "per_seed": {str(seed): number for seed, number in effect.per_seed.items()},
        "estimate": None if x is None else asdict(x),
        "p": effect.p,
        "holm_p": effect.holm_p,
    }


@dataclass(frozen=True)
class Summary:
    """A number of one condition over seeds; without deviation and interval if there is one seed."""

    condition: Factors
    value: str
    mean: float
    sd: float | None  # n - 1
    low: float | None  # 95 % t-interval of the mean
    high: float | None
    seeds: tuple[int, ...]

    @property
    def n(self) -> int:
        return len(self.seeds)


def summaries(outcomes: Iterable[Outcome], value: str) -> list[Summary]:
    """Mean, SD, n and 95 % t-interval over seeds of every condition that has the number."""
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
