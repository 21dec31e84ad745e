"""Group runs into conditions and conditions into families, and choose names and colours.

A condition is named by what distinguishes it in its family: its protocol, its model, or both. If
two conditions share both, their names also say which settings differ; measured models are then
named by their folders.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path
from typing import Any

from nearsight.core import UserError
from nearsight.protocol import UNTRAINED, LocatSettings, spoken_name
from nearsight.report.read.conditions import ConditionRuns, Family
from nearsight.report.read.evidence import Evidence, read_run
from nearsight.report.read.palette import CONDITIONS, OTHERS


def read_families(paths: Sequence[Path]) -> list[Family]:
    """Read run folders and group them, in the order given; a folder given twice counts once.

    Raises:
        UserError: If there is no folder, a run is not finished or not measured, or two runs have
            the same protocol and seed.
    """
    unique = list(dict.fromkeys(Path(path).resolve() for path in paths))
    if not unique:
        raise UserError("no run folder was given; a report needs at least one")
    given = {Path(path).resolve(): Path(path) for path in paths}
    return grouped_families([read_run(given[path]) for path in unique])


def grouped_families(runs: Sequence[Evidence]) -> list[Family]:
    """Group runs into conditions and families, in the order they are given."""
    families: dict[tuple, dict[str, list[Evidence]]] = {}
    for run in runs:
        same = json.dumps(run.protocol, sort_keys=True)
        families.setdefault(run.family, {}).setdefault(same, []).append(run)
    return [Family(_conditions(list(groups.values()))) for groups in families.values()]


def _conditions(groups: list[list[Evidence]]) -> tuple[ConditionRuns, ...]:
    groups = [sorted(runs, key=lambda run: run.seed or 0) for runs in groups]
    for runs in groups:
        for first, second in pairwise(runs):
            if first.seed == second.seed:
                what = "measure the same model" if first.is_model else "have one protocol and seed"
                raise UserError(
                    f"{first.path} and {second.path} {what}, so that one result would count "
                    "twice; give only one of them"
                )
    firsts = [runs[0] for runs in groups]
    labels, colours = _labels(firsts), _colours(firsts)
    found = zip(labels, colours, groups, strict=True)
    return tuple(ConditionRuns(label, colour, tuple(runs)) for label, colour, runs in found)


def _colours(firsts: list[Evidence]) -> list[str]:
    """Choose colours: the first condition of a preset has the preset's own, others a free one."""
    found: dict[int, str] = {}
    seen = set()
    for index, run in enumerate(firsts):
        name = spoken_name(run.protocol["name"].replace("colorjitter", "autoaugment"))
        if name in CONDITIONS and run.protocol["name"] not in seen:
            found[index] = CONDITIONS[name]
        seen.add(run.protocol["name"])
    free = [colour for colour in OTHERS if colour not in found.values()] or list(OTHERS)
    rest = [index for index in range(len(firsts)) if index not in found]
    found |= {index: free[turn % len(free)] for turn, index in enumerate(rest)}
    return [found[index] for index in range(len(firsts))]


def _labels(firsts: list[Evidence]) -> list[str]:
    """Name conditions by protocol, by model if only the models differ, or by both."""
    protocols = [spoken_name(run.protocol["name"]) for run in firsts]
    models = [run.model_name for run in firsts]
    labels = protocols
    if len(set(models)) > 1 and not firsts[0].is_model:
        both = [f"{model} by {name}" for model, name in zip(models, protocols, strict=True)]
        labels = models if len(set(protocols)) == 1 else both
    found = [_distinct(label, index, labels, firsts) for index, label in enumerate(labels)]
    return [label + UNTRAINED * run.is_untrained for label, run in zip(found, firsts, strict=True)]


def _distinct(label: str, index: int, labels: list[str], firsts: list[Evidence]) -> str:
    """Return the label of a condition, with the settings that differ if another has this label."""
    twins = [run for run, other in zip(firsts, labels, strict=True) if other == label]
    run = firsts[index]
    if len(twins) == 1:
        return label
    if run.is_model:
        return run.path.resolve().name
    settings = [flat_settings(twin.protocol) for twin in twins]
    keys = sorted({key for each in settings for key in each})
    differing = [key for key in keys if len({str(each.get(key)) for each in settings}) > 1]
    texts = [_settings_text(each, differing, short=True) for each in settings]
    short = len(set(texts)) == len(texts)
    text = _settings_text(flat_settings(run.protocol), differing, short)
    return f"{label} ({text})" if text else label


def _settings_text(settings: dict[str, Any], keys: list[str], short: bool) -> str:
    """Write settings as text.

    Args:
        settings: The settings of a condition, by dotted path.
        keys: The settings to write.
        short: Whether to leave out the paths before names, settings that are off, and settings at
            LocAt's defaults.
    """
    own = flat_settings({"model": {"locat": asdict(LocatSettings())}})
    if not short:
        return ", ".join(f"{key}={settings.get(key)}" for key in keys)
    told = [k for k in keys if settings.get(k) is not None and settings[k] != own.get(k, ...)]
    names = [k.rpartition(".")[2] if k.startswith("model.") else k for k in told]
    return ", ".join(f"{name}={settings[key]}" for name, key in zip(names, told, strict=True))


def flat_settings(settings: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Flatten nested settings into a dictionary with dotted paths as keys.

    >>> flat_settings({"optimizer": {"lr": 0.1}, "cutmix": None})
    {'optimizer.lr': 0.1, 'cutmix': None}
    """
    flat: dict[str, Any] = {}
    for key, value in settings.items():
        if isinstance(value, dict):
            flat |= flat_settings(value, f"{prefix}{key}.")
        else:
            flat[f"{prefix}{key}"] = value
    return flat
