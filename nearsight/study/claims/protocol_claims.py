"""Claims of the protocol paper: Toledo and Martínez, arXiv 2605.16390. One seed there."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from nearsight.study.analyse import Outcome
from nearsight.study.claims.claim import (
    ABOVE,
    ACCURACY_MARGIN,
    BELOW,
    NULL_SHARE,
    Claim,
    ClaimPart,
    Region,
    Scale,
    Statistic,
    within,
)
from nearsight.study.claims.comparisons import (
    difference,
    flags,
    level,
    main_effect,
    null_beside,
    parts,
    separation,
)
from nearsight.study.claims.paper_tables import (
    PAPER_TABLE_2,
    paper_difference,
    paper_effect,
    paper_values,
)

WITH, WITHOUT = (paper_values("min_mad", "cutmix", on) for on in (True, False))
MOST_WITH, LEAST_WITHOUT = WITH[-1], WITHOUT[0]
BOX_MAD = 0.103  # of a 3x3 box on the 8x8 grid: a head below it looks at itself or next to itself
DATA = {"cifar10": 600, "cifar100": 600, "tiny-imagenet": 400}

ABLATION = Scale(("compact_vit",), {"cifar100": 600}, "8x8")
DATASETS = Scale(("compact_vit",), DATA, "8x8")
PARTS = ("autoaugment", "colorjitter", "cutmix", "labelsmoothing", "label_smoothing")
OF_DATA = (  # what sets of data may differ in; not the fraction that is taken of them
    "data.name", "data.image_size", "epochs", "patience", "warmup_epochs", "batch_size",
    "optimizer",
)  # fmt: skip
BASELINE, MODERN = flags(False, False, False), flags(True, True, True)
ONLY = {
    "autoaugment": flags(True, False, False),
    "cutmix": flags(False, True, False),
    "labelsmoothing": flags(False, False, True),
}


def _thresholds() -> Statistic:
    """Min MAD of each of the eight conditions, on its side of the 3x3 line.

    The paper's own bounds (0.024 and 0.210) are its most extreme conditions: the interval of a
    perfect replication straddles them, so they can decide nothing.
    """
    found = []
    for cutmix in (True, False):
        region = Region(high=BOX_MAD) if cutmix else Region(low=BOX_MAD)
        for augment in (False, True):
            for smoothing in (False, True):
                on = [("AutoAugment", augment), ("CutMix", cutmix), ("label smoothing", smoothing)]
                label = " + ".join(name for name, is_on in on if is_on) or "Baseline"
                side = flags(augment, cutmix, smoothing)
                found.append(level("min_mad", side, region, f"min MAD, {label}"))
    every = parts(*found)

    def statistic(outcomes: Sequence[Outcome]) -> list[ClaimPart]:
        seen = every(outcomes)
        return seen if len({part.region for part in seen}) == 2 else []  # with and without

    return statistic


def _no_effect(factor: str, name: str) -> Statistic:
    """On the logarithm of min MAD, at most a share of what CutMix does."""
    return null_beside("min_mad", factor, "cutmix", NULL_SHARE, f"log min MAD, {name}")


def _dissociation() -> Statistic:
    """Both improve accuracy by comparable amounts; only CutMix crosses the 3x3 line."""
    alone = {"CutMix": ONLY["cutmix"], "AutoAugment": ONLY["autoaugment"]}
    return parts(
        *(
            difference("accuracy", side, BASELINE, ABOVE, f"accuracy, {name} alone - Baseline")
            for name, side in alone.items()
        ),
        difference(
            "accuracy", alone["CutMix"], alone["AutoAugment"], within(ACCURACY_MARGIN),
            "accuracy, CutMix alone - AutoAugment alone",
        ),
        level("min_mad", alone["CutMix"], Region(high=BOX_MAD), "min MAD, CutMix alone"),
        level("min_mad", alone["AutoAugment"], Region(low=BOX_MAD), "min MAD, AutoAugment alone"),
    )  # fmt: skip


def _by_data(value: str, region: Region, label: str) -> Statistic:
    return parts(
        *(
            difference(
                value, {**MODERN, "data.name": data}, {**BASELINE, "data.name": data}, region,
                f"{label}, Modern - Baseline on {data}",
            )
            for data in DATA
        )
    )  # fmt: skip


def _printed(values: Sequence[float]) -> str:
    return ", ".join(f"{value:.3f}" for value in values)


def _minus(one: str, other: str) -> str:
    """The paper's min MAD of two conditions and their difference."""
    left, right = (PAPER_TABLE_2[name]["min_mad"] for name in (one, other))
    return f"{left:.3f} - {right:.3f} = {paper_difference('min_mad', one, other):.3f}"


def _points(*pairs: tuple[str, str, str]) -> str:
    """The paper's differences of accuracy: one protocol, another, a data set."""
    found = [f"{100 * paper_difference('accuracy', *pair):.2f}" for pair in pairs]
    return f"{', '.join(found)} points"


ablation = partial(Claim, compares=PARTS, scale=ABLATION)
on_data = partial(Claim, compares=(*PARTS, *OF_DATA), scale=DATASETS, num_parts=3)


PROTOCOL_CLAIMS: tuple[Claim, ...] = (
    ablation(
        id="protocol-thresholds", source="protocol paper, table 2, figure 4",
        sentence="Every condition with CutMix has a head below the 3x3 line, none without has one.",
        value="min_mad", statistic=_thresholds(), num_parts=8,
        direction=f"min MAD at most {BOX_MAD} with CutMix, at least {BOX_MAD} without",
        paper=f"with {_printed(WITH)}; without {_printed(WITHOUT)}",
    ),
    ablation(
        id="protocol-separation", source="protocol paper, section 6.2, figure 4",
        sentence="Conditions with and without CutMix do not overlap in min MAD.",
        value="min_mad", direction="largest with CutMix - smallest without: below 0",
        statistic=separation("min_mad", "cutmix", BELOW, "min MAD, most with - least without"),
        paper=f"{MOST_WITH:.3f} - {LEAST_WITHOUT:.3f} = {MOST_WITH - LEAST_WITHOUT:.3f}",
    ),
    ablation(
        id="protocol-cutmix", source="protocol paper, section 6.2, table 2",
        sentence="CutMix makes the most local head more local.",
        value="min_mad", direction="main effect below 0",
        statistic=main_effect("min_mad", "cutmix", BELOW, "min MAD, main effect of CutMix"),
        paper=f"{paper_effect('min_mad', 'cutmix'):.3f}",
    ),
    ablation(
        id="protocol-cutmix-alone", source="protocol paper, section 6.2, table 2",
        sentence="CutMix alone, added to Baseline, lowers min MAD.",
        value="min_mad", direction="difference below 0",
        statistic=difference("min_mad", ONLY["cutmix"], BASELINE, BELOW,
                             "min MAD, CutMix alone - Baseline"),
        paper=_minus("baseline+cutmix", "baseline"),
    ),
    ablation(
        id="protocol-cutmix-entropy", source="protocol paper, section 6.2, table 2, figure 5",
        sentence="CutMix makes the most concentrated head more concentrated.",
        value="min_entropy", direction="main effect below 0",
        statistic=main_effect("min_entropy", "cutmix", BELOW, "min entropy, main effect of CutMix"),
        paper=f"{paper_effect('min_entropy', 'cutmix'):.4f}",
    ),
    ablation(
        id="protocol-autoaugment-null", source="protocol paper, section 6.2, table 2",
        sentence="AutoAugment has no independent effect on locality.",
        value="min_mad", margin=NULL_SHARE, num_parts=2,
        direction=f"effect on log min MAD within ±{NULL_SHARE} of CutMix's",
        statistic=_no_effect("autoaugment", "AutoAugment"),
        paper=f"main effect {paper_effect('min_mad', 'autoaugment'):.3f}; alone "
        f"{_minus('baseline+autoaugment', 'baseline')}; with CutMix "
        f"{_minus('modern-labelsmoothing', 'baseline+cutmix')}",
    ),
    ablation(
        id="protocol-labelsmoothing-null", source="protocol paper, section 6.2, table 2",
        sentence="Label smoothing has no independent effect on locality.",
        value="min_mad", margin=NULL_SHARE, num_parts=2,
        direction=f"effect on log min MAD within ±{NULL_SHARE} of CutMix's",
        statistic=_no_effect("labelsmoothing", "label smoothing"),
        paper=f"main effect {paper_effect('min_mad', 'labelsmoothing'):.3f}; alone "
        f"{_minus('baseline+labelsmoothing', 'baseline')}",
    ),
    ablation(
        id="protocol-dissociation", source="protocol paper, section 6.2, table 2",
        sentence="CutMix and AutoAugment alone improve accuracy by comparable amounts, yet only "
        "CutMix makes a head local.",
        value="accuracy", num_parts=5, margin=ACCURACY_MARGIN, statistic=_dissociation(),
        direction=f"both above 0, their difference within ±{ACCURACY_MARGIN}; min MAD at most "
        f"{BOX_MAD} with CutMix, at least {BOX_MAD} with AutoAugment",
        paper=_points(("baseline+cutmix", "baseline+autoaugment", "cifar100")),
    ),
    ablation(
        id="protocol-hierarchy", source="protocol paper, section 5.3, figure 3b",
        sentence="Under Modern attention reaches farther with depth.",
        value="mad_rise", direction="last layer - first layer: above 0",
        statistic=level("mad_rise", MODERN, ABOVE, "mean MAD, last layer - layer 1, Modern"),
    ),
    on_data(
        id="protocol-modern-local", source="protocol paper, section 5.1, figure 1",
        sentence="Modern lowers min MAD on all three data sets.",
        value="min_mad", direction="each difference below 0",
        statistic=_by_data("min_mad", BELOW, "min MAD"),
        paper=f"CIFAR-100: {_minus('modern', 'baseline')}",
    ),
    on_data(
        id="protocol-modern-concentrated",
        source="protocol paper, sections 5.2 and 5.4, figures 2 and 3",
        sentence="Modern concentrates the attention of the first layer on all three data sets.",
        value="layer1_entropy", direction="each difference below 0",
        statistic=_by_data("layer1_entropy", BELOW, "entropy of layer 1"),
    ),
    on_data(
        id="protocol-modern-accuracy", source="protocol paper, table 1",
        sentence="Modern improves test accuracy on all three data sets.",
        value="accuracy", direction="each difference above 0",
        statistic=_by_data("accuracy", ABOVE, "accuracy"),
        paper=_points(*(("modern", "baseline", data) for data in DATA)),
    ),
)  # fmt: skip
