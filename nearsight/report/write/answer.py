"""The question of a report and its answer in one sentence, with the numbers."""

from __future__ import annotations

from collections.abc import Sequence

from nearsight.report.read import ConditionRuns, Family, flat_settings, paired_difference
from nearsight.report.write.cells import NumberStyle
from nearsight.stats import Estimate

NO_CLAIM = "One seed is not enough for a claim."
PLAIN = "vit"
PARTS = {  # the ends of our models' names
    "locat": "LocAt", "gaug": "GAug", "prr": "PRR", "convit": "ConViT",
}  # fmt: skip


def question(families: list[Family]) -> str:
    """What the runs given can speak to."""
    labels = [condition.label for family in families for condition in family.conditions]
    if all(family.is_models for family in families):
        return f"How local is attention in {_models_text(labels)}?"
    if any(family.is_models for family in families):
        return f"How local is attention in {len(labels)} runs and models?"
    added = [tuple(found[1]) if (found := additions(family)) else () for family in families]
    if added[0] and len(set(added)) == 1:
        verb = "Does" if len(added[0]) == 1 else "Do"
        return f"{verb} {_listed(added[0])} make attention local?"
    runs = [run for family in families for c in family.conditions for run in c.runs]
    names = list(dict.fromkeys(run.protocol["name"] for run in runs))
    models = list(dict.fromkeys(run.model_name for run in runs))
    variants = {run.architecture for run in runs}
    several = f"{len(variants)} models" if len(variants) > len(models) else _models_text(models)
    of_models = f" in {several}" if len(variants) > 1 else ""
    if len(names) == 1 and of_models:
        return f"How local is attention{of_models}?"
    if len(names) > 2:
        return f"How local is attention under {len(names)} protocols{of_models}?"
    return f"How local is attention with {' and with '.join(names)}{of_models}?"


def _models_text(names: list[str]) -> str:
    names = list(dict.fromkeys(names))
    return " and ".join(names) if len(names) <= 2 else f"{len(names)} models"


def _listed(words: Sequence[str]) -> str:
    """In words.

    >>> _listed(["CutMix"]), _listed(["GAug", "PRR", "LocAt"])
    ('CutMix', 'GAug, PRR and LocAt')
    """
    return " and ".join(filter(None, (", ".join(words[:-1]), words[-1])))


def additions(family: Family) -> tuple[ConditionRuns, dict[str, ConditionRuns]] | None:
    """The condition that all others add one thing to, and what each adds; None if there is none."""
    if family.is_models or len(family.conditions) < 2:
        return None
    for plain in family.conditions:
        others = [condition for condition in family.conditions if condition is not plain]
        found = {_addition(plain, other): other for other in others}
        if None not in found and len(found) == len(others):
            return plain, {what: other for what, other in found.items() if what}
    return None


def _addition(plain: ConditionRuns, other: ConditionRuns) -> str | None:
    """CutMix, a part of LocAt or a ConViT, if that alone sets the other condition apart."""
    settings = [flat_settings(condition.runs[0].protocol) for condition in (plain, other)]
    paths = {path for each in settings for path in each}
    differing = {path for path in paths if settings[0].get(path) != settings[1].get(path)}
    rest = [p for p in differing - {"name", "model.name"} if p.split(".")[0] != "cutmix"]
    models = [condition.runs[0].model_name.rpartition("_") for condition in (plain, other)]
    found: list[str | None] = []
    if any(path.split(".")[0] == "cutmix" for path in differing):
        found.append("CutMix" if other.has_cutmix and not plain.has_cutmix else None)
    if models[0] != models[1]:
        (stem, _, end), (other_stem, _, part) = models
        found.append(PARTS.get(part) if stem == other_stem and end == PLAIN else None)
    return found[0] if len(found) == 1 and not rest else None


def answer(family: Family) -> str:
    """The most local head of each condition, against the null lines; a claim only with seeds."""
    null = family.null
    lines = (
        f"For comparison, uniform attention is {null['uniform_mad']:.3f} "
        f"and a 3x3 box {null['box_mad']:.3f}."
    )
    if family.is_models:
        return _of_models(family, lines)
    if found := additions(family):
        return _of_additions(*found, lines)
    if len(family.conditions) > 2:
        return _extremes(family, lines)
    ranked = sorted(family.conditions, key=lambda c: c.estimate("min_mad").value)
    first, *others = ranked
    text = f"With {first.label} the most local head has MAD {_number(first)}"
    text += "".join(f", with {other.label} {_number(other)}" for other in others)
    if any(condition.num_seeds == 1 for condition in ranked):
        return f"{text}. {lines} {NO_CLAIM}"
    difference = paired_difference(first, others[0], "min_mad") if others else None
    if difference is None:
        return f"{text}. {lines}"
    return f"{text}. The difference, paired by seed, is {difference_text(difference)}. {lines}"


def _of_additions(plain: ConditionRuns, added: dict[str, ConditionRuns], lines: str) -> str:
    """With each thing that is added, and without; differences are from the plain condition."""
    (what, first), *others = added.items()
    text = f"With {what} ({first.label}) the most local head has MAD {_number(first)}"
    text += "".join(f", with {what} ({c.label}) {_number(c)}" for what, c in others)
    text += f", without ({plain.label}) {_number(plain)}"
    if min(condition.num_seeds for condition in (plain, *added.values())) == 1:
        return f"{text}. {lines} {NO_CLAIM}"
    found = {what: paired_difference(c, plain, "min_mad") for what, c in added.items()}
    changes = [f"{what} changes it by {difference_text(x)}" for what, x in found.items() if x]
    paired = f" {_listed(changes)}, paired by seed." if changes else ""
    return f"{text}.{paired} {lines}"


def _of_models(family: Family, lines: str) -> str:
    """The most local head of each model, or of the two ends; ``nearsight diff`` compares them."""
    ranked = sorted(family.conditions, key=lambda c: c.estimate("min_mad").value)
    first, last = ranked[0], ranked[-1]
    text = f"The most local head of {first.label} ({_place(first)}) has MAD {_number(first)}"
    if len(ranked) > 1:
        text += f", that of {last.label} ({_place(last)}) {_number(last)}"
    ends = f"Of {len(ranked)} models, the two ends: " if len(ranked) > 2 else ""
    return f"{ends}{text}. {lines}"


def _place(condition: ConditionRuns) -> str:
    where = condition.runs[0].measure.summary.smallest("mad")
    assert where is not None, "checked when the evidence was read"
    return f"layer {where.layer}, head {where.head}"


def _extremes(family: Family, lines: str) -> str:
    """Many conditions: the two ends; no difference, they were picked for being the ends."""
    ranked = sorted(family.conditions, key=lambda c: c.estimate("min_mad").value)
    first, last = ranked[0], ranked[-1]
    text = (
        f"Of {len(ranked)} conditions {first.label} has the most local head, MAD {_number(first)}, "
        f"and {last.label} the least local one, {_number(last)}. {lines}"
    )
    single = any(condition.num_seeds == 1 for condition in ranked)
    return f"{text} {NO_CLAIM}" if single else text


def _number(condition: ConditionRuns) -> str:
    x = condition.estimate("min_mad")
    if x.over == "images":
        seed = "" if condition.is_model else ", 1 seed"
        return f"{x.value:.3f} ({NumberStyle().interval(x)} over {x.n:,} images{seed})"
    return f"{x.value:.3f} ± {x.high - x.value:.3f} (n = {x.n} seeds)"


def difference_text(x: Estimate) -> str:
    """A difference with its interval, and whether that excludes 0."""
    bounds = f"{x.low:+.3f} to {x.high:+.3f}"
    zero = "excludes 0" if x.low > 0 or x.high < 0 else "includes 0"
    return f"{x.value:+.3f} ({bounds}, n = {x.n}, {zero})".replace("-", "−")
