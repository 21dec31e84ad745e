"""Write the question of a report and its answer in a few sentences, with the numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from nearsight.protocol import spoken_name
from nearsight.report.read import ConditionRuns, Family, flat_settings, paired_difference
from nearsight.report.write.cells import NumberStyle
from nearsight.stats import Estimate

NO_CLAIM = "One seed is not enough for a claim."
PLAIN = "vit"
PARTS = {  # by the end of a model's name
    "locat": "LocAt", "gaug": "GAug", "prr": "PRR", "convit": "ConViT",
}  # fmt: skip


def question(families: list[Family]) -> str:
    """Return the question that these runs can answer, for the title of the page."""
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
    names = list(dict.fromkeys(spoken_name(run.protocol["name"]) for run in runs))
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
    """Join words with commas and a final "and".

    >>> _listed(["CutMix"]), _listed(["GAug", "PRR", "LocAt"])
    ('CutMix', 'GAug, PRR and LocAt')
    """
    return " and ".join(filter(None, (", ".join(words[:-1]), words[-1])))


def additions(family: Family) -> tuple[ConditionRuns, dict[str, ConditionRuns]] | None:
    """Find the plain condition of a family to which every other condition adds one thing.

    Returns:
        The plain condition, and the other conditions by what they add ("CutMix"); None if the
        conditions do not differ in this way.
    """
    if family.is_models or len(family.conditions) < 2:
        return None
    for plain in family.conditions:
        others = [condition for condition in family.conditions if condition is not plain]
        found = {_addition(plain, other): other for other in others}
        if None not in found and len(found) == len(others):
            return plain, {what: other for what, other in found.items() if what}
    return None


def _addition(plain: ConditionRuns, other: ConditionRuns) -> str | None:
    """Return "CutMix" or the name of the part if the other condition adds only that, else None."""
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
    """Say in a few sentences how local the attention of a family is, with the numbers.

    With one seed the sentences report numbers, but claim no effect.
    """
    null = family.null
    lines = (
        f"For comparison, uniform attention has MAD {null['uniform_mad']:.3f}, and attention "
        f"spread over a 3x3 box {null['box_mad']:.3f}."
    )
    if family.is_models:
        return f"{_of_models(family)} {lines}"
    single = any(condition.num_seeds == 1 for condition in family.conditions)
    if found := additions(family):
        plain, added = found
        told = _side_by_side(plain, added) if single else _changes(plain, added)
    elif len(family.conditions) > 2:
        told = _extremes(family)
    else:
        told = _pair(family, single)
    return f"{told} {lines}" + (f" {NO_CLAIM}" if single else "")


def _side_by_side(plain: ConditionRuns, added: dict[str, ConditionRuns]) -> str:
    """Report the numbers of single seeds without saying what causes their difference."""
    values = [f"{_value(c)} with {what}" for what, c in added.items()]
    found = [condition.estimate("min_mad") for condition in (plain, *added.values())]
    over_images = [x for x in found if x.over == "images"]
    reach = max(max(x.value - x.low, x.high - x.value) for x in over_images)
    return (
        f"The most local head has MAD {_listed(values)}, against {_value(plain)} without "
        f"({plain.label}). The 95 % intervals over {max(x.n for x in over_images):,} images extend "
        f"at most {reach:.4f} to either side."
    )


def _changes(plain: ConditionRuns, added: dict[str, ConditionRuns]) -> str:
    """Say how each addition changes the most local head, judged by the paired difference."""
    sentences = []
    for what, condition in added.items():
        both = f"MAD {_number(condition)} with it, {_number(plain)} without"
        change = paired_difference(condition, plain, "min_mad")
        sentences.append(
            f"The most local head has {both} {what}."
            if change is None
            else effect_sentence(what, change, both)
        )
    return " ".join(sentences)


def effect_sentence(
    what: str, change: Estimate, both: str = "", number: Literal["MAD", "score"] = "MAD"
) -> str:
    """Say whether something makes the most local head more or less local, with the numbers.

    Args:
        what: What was changed, as the subject of the sentence.
        change: The paired difference of the number.
        both: The two values themselves, in words; they are left out if empty.
        number: MAD, or the score, which is larger for more local heads.

    >>> effect_sentence("CutMix", Estimate(-0.2, -0.3, -0.1, 3, "seeds"))[:43]
    'CutMix makes the most local head more local'
    """
    if change.low <= 0 <= change.high:
        told = f"{what} has no effect on the most local head that these seeds can show"
    else:
        way = "more" if (change.high < 0) == (number == "MAD") else "less"
        told = f"{what} makes the most local head {way} local"
    numbers = f"{both}, a difference of" if both else f"its {number} changes by"
    return f"{told[0].upper()}{told[1:]}: {numbers} {_change(change)}."


def _pair(family: Family, single: bool) -> str:
    """Report one condition, or two that differ in more than one setting."""
    first, *others = sorted(family.conditions, key=lambda c: c.estimate("min_mad").value)
    text = f"With {first.label} the most local head has MAD {_number(first)}"
    text += "".join(f", with {other.label} {_number(other)}" for other in others)
    change = None if single or not others else paired_difference(first, others[0], "min_mad")
    return f"{text}." if change is None else f"{text}, a difference of {_change(change)}."


def _of_models(family: Family) -> str:
    """Report the most local head of each model, or only of the most and least local of many."""
    ranked = sorted(family.conditions, key=lambda c: c.estimate("min_mad").value)
    first, last = ranked[0], ranked[-1]
    if len(ranked) > 2:
        return (
            f"Of {len(ranked)} models, {first.label} has the most local head, {_place(first)}, "
            f"with MAD {_number(first)}. The least local of these models is {last.label}: its most "
            f"local head, {_place(last)}, has MAD {_number(last)}."
        )
    told = [
        f"The most local head of {each.label} is {_place(each)}, with MAD {_number(each)}."
        for each in ranked
    ]
    return " ".join(told)


def _place(condition: ConditionRuns) -> str:
    where = condition.runs[0].measure.summary.smallest("mad")
    assert where is not None, "checked when the evidence was read"
    return f"head {where.head} of layer {where.layer}"


def _extremes(family: Family) -> str:
    """Report the most and the least local of many conditions.

    Their difference is left out: it is biased, because they were chosen for being the extremes.
    """
    ranked = sorted(family.conditions, key=lambda c: c.estimate("min_mad").value)
    first, last = ranked[0], ranked[-1]
    return (
        f"Of {len(ranked)} conditions, {first.label} has the most local head, with MAD "
        f"{_number(first)}. The least local condition is {last.label}: its most local head has "
        f"MAD {_number(last)}."
    )


def _value(condition: ConditionRuns) -> str:
    return f"{condition.estimate('min_mad').value:.3f}"


def _number(condition: ConditionRuns) -> str:
    x = condition.estimate("min_mad")
    own = f"self-mass {condition.estimate('most_local_self_mass').value:.2f}"
    if x.over == "images":
        seed = "" if condition.is_model else ", 1 seed"
        return f"{x.value:.3f} ({NumberStyle().interval(x)} over {x.n:,} images{seed}; {own})"
    return f"{x.value:.3f} ± {x.high - x.value:.3f} ({own})"


def _change(x: Estimate) -> str:
    """Write a difference with its interval and the number of pairs of runs behind it."""
    bounds = f"{x.low:+.3f} to {x.high:+.3f}"
    return f"{x.value:+.3f} ({bounds}, paired over {x.n} seeds)".replace("-", "−")
