"""The question of a report and its answer in one sentence, with the numbers."""

from __future__ import annotations

from nearsight.report.conditions import Condition, Family, flat_settings, paired_difference
from nearsight.report.evidence import Estimate
from nearsight.report.tables import interval_text

NO_CLAIM = "one seed: no claim"


def question(families: list[Family]) -> str:
    """What the runs given can speak to."""
    labels = [condition.label for family in families for condition in family.conditions]
    if all(family.is_models for family in families):
        return f"How local is attention in {_listed(labels)}?"
    if any(family.is_models for family in families):
        return f"How local is attention in {len(labels)} runs and models?"
    pairs = [cutmix_pair(family) for family in families]
    if all(pairs):
        return "Does CutMix make attention local?"
    runs = [run for family in families for c in family.conditions for run in c.runs]
    names = list(dict.fromkeys(run.protocol["name"] for run in runs))
    if len(names) > 2:
        return f"How local is attention under {len(names)} protocols?"
    return f"How local is attention with {' and with '.join(names)}?"


def _listed(names: list[str]) -> str:
    names = list(dict.fromkeys(names))
    return " and ".join(names) if len(names) <= 2 else f"{len(names)} models"


def cutmix_pair(family: Family) -> tuple[Condition, Condition] | None:
    """(with, without) if the family is two conditions that differ by CutMix alone."""
    if len(family.conditions) != 2 or family.is_models:
        return None
    settings = [flat_settings(condition.runs[0].protocol) for condition in family.conditions]
    paths = {path for each in settings for path in each}
    differing = {path for path in paths if settings[0].get(path) != settings[1].get(path)}
    if any(path != "name" and path.split(".")[0] != "cutmix" for path in differing):
        return None
    mixed = [condition for condition in family.conditions if condition.has_cutmix]
    plain = [condition for condition in family.conditions if not condition.has_cutmix]
    return (mixed[0], plain[0]) if mixed and plain else None


def answer(family: Family) -> str:
    """The most local head of each condition, against the null lines; a claim only with seeds."""
    null = family.null
    lines = f"uniform attention is {null['uniform_mad']:.3f}, a 3x3 box {null['box_mad']:.3f}"
    if family.is_models:
        return _of_models(family, lines)
    pair = cutmix_pair(family)
    if pair:
        first, second = pair
        text = (
            f"With CutMix ({first.label}) the most local head has MAD {_number(first)}, "
            f"without ({second.label}) {_number(second)}"
        )
    elif len(family.conditions) == 1:
        first = second = family.conditions[0]
        text = f"With {first.label} the most local head has MAD {_number(first)}"
    elif len(family.conditions) == 2:
        first, second = sorted(family.conditions, key=lambda c: c.estimate("min_mad").value)
        text = (
            f"With {first.label} the most local head has MAD {_number(first)}, "
            f"with {second.label} {_number(second)}"
        )
    else:
        return _extremes(family, lines)
    if min(first.num_seeds, second.num_seeds) == 1:
        return f"{text}; {lines}; {NO_CLAIM}."
    difference = None if first is second else paired_difference(first, second, "min_mad")
    if difference is None:
        return f"{text}; {lines}."
    return f"{text}; the difference, paired by seed, is {_difference(difference)}; {lines}."


def _of_models(family: Family, lines: str) -> str:
    """The most local head of each model, or of the two ends; ``nearsight diff`` compares them."""
    ranked = sorted(family.conditions, key=lambda c: c.estimate("min_mad").value)
    first, last = ranked[0], ranked[-1]
    text = f"The most local head of {first.label} ({_place(first)}) has MAD {_number(first)}"
    if len(ranked) > 1:
        text += f", that of {last.label} ({_place(last)}) {_number(last)}"
    ends = f"Of {len(ranked)} models, the two ends: " if len(ranked) > 2 else ""
    return f"{ends}{text}; {lines}."


def _place(condition: Condition) -> str:
    where = condition.runs[0].measure["summary"]["min_mad"]
    return f"layer {where['layer']}, head {where['head']}"


def _extremes(family: Family, lines: str) -> str:
    """Many conditions: the two ends; no difference, they were picked for being the ends."""
    ranked = sorted(family.conditions, key=lambda c: c.estimate("min_mad").value)
    first, last = ranked[0], ranked[-1]
    text = (
        f"Of {len(ranked)} conditions {first.label} has the most local head, MAD {_number(first)}, "
        f"and {last.label} the least local one, {_number(last)}; {lines}"
    )
    single = any(condition.num_seeds == 1 for condition in ranked)
    return f"{text}; {NO_CLAIM}." if single else f"{text}."


def _number(condition: Condition) -> str:
    x = condition.estimate("min_mad")
    if x.over == "images":
        seed = "" if condition.is_model else ", 1 seed"
        return f"{x.value:.3f} ({interval_text(x)} over {x.n:,} images{seed})"
    return f"{x.value:.3f} ± {x.high - x.value:.3f} (n = {x.n} seeds)"


def _difference(x: Estimate) -> str:
    bounds = f"{x.low:+.3f} to {x.high:+.3f}"
    zero = "excludes 0" if x.low > 0 or x.high < 0 else "includes 0"
    return f"{x.value:+.3f} ({bounds}, n = {x.n}, {zero})".replace("-", "−")
