"""List the claims of the protocol paper (Toledo and Martínez, arXiv 2605.16390).

The paper has one seed.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from nearsight.study.analyse import EQUAL_STEPS, Outcome
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
    Side,
    difference,
    fact,
    flags,
    level,
    main_effect,
    null_beside,
    parts,
    separation,
    weighted_sum,
)
from nearsight.study.claims.paper_recipe import preset_recipe
from nearsight.study.claims.paper_tables import (
    PAPER_TABLE_2,
    paper_difference,
    paper_effect,
    paper_values,
    rank_correlations,
    self_mass_bounds,
)

WITH, WITHOUT = (paper_values("min_mad", "cutmix", on) for on in (True, False))
MOST_WITH, LEAST_WITHOUT = WITH[-1], WITHOUT[0]
BOX_MAD = 0.103  # of a 3x3 box on the 8x8 grid: a head below attends to itself or its neighbours
ON_GRID: Side = {"grid": "8x8"}  # a threshold in MAD holds on the grid that it comes from
MOSTLY = 0.5  # a head with at least this self-mass is an identity head
ALIKE = 0.5  # with a smaller rank correlation, two numbers may be called independent
DEPTH = 8  # layers; nothing reads the patch rows of the last one
DATA = {"cifar10": 600, "cifar100": 600, "tiny-imagenet": 400}

RECIPE = preset_recipe(lambda settings: "baseline", fullest="modern")
ABLATION = Scale(("compact_vit",), {"cifar100": 600}, "8x8", recipe=RECIPE)
DATASETS = Scale(("compact_vit",), DATA, "8x8", recipe=RECIPE)
PARTS = ("autoaugment", "colorjitter", "cutmix", "labelsmoothing", "label_smoothing")
OF_DATA = (  # data sets may differ in these settings, but not in the fraction that is used
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
    """Test min MAD of each of the eight conditions against the 3x3 line.

    The paper's own bounds (0.024 and 0.210) are the values of its most extreme conditions. The
    interval of a perfect replication would contain them, so they could not decide anything.
    """
    found = []
    for cutmix in (True, False):
        region = Region(high=BOX_MAD) if cutmix else Region(low=BOX_MAD)
        for augment in (False, True):
            for smoothing in (False, True):
                on = [("AutoAugment", augment), ("CutMix", cutmix), ("label smoothing", smoothing)]
                label = " + ".join(name for name, is_on in on if is_on) or "Baseline"
                side = {**flags(augment, cutmix, smoothing), **ON_GRID}
                found.append(level("min_mad", side, region, f"min MAD, {label}"))
    every = parts(*found)

    def statistic(outcomes: Sequence[Outcome]) -> list[ClaimPart]:
        seen = every(outcomes)
        return seen if len({part.region for part in seen}) == 2 else []  # with and without

    return statistic


def _no_effect(factor: str, name: str) -> Statistic:
    """Test that the effect on log min MAD is at most a share of that of CutMix."""
    return null_beside("min_mad", factor, "cutmix", NULL_SHARE, f"log min MAD, {name}")


def _dissociation() -> Statistic:
    """Test that both parts improve accuracy alike, but only CutMix makes a head local."""
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
        level("min_mad", {**alone["CutMix"], **ON_GRID}, Region(high=BOX_MAD),
              "min MAD, CutMix alone"),
        level("min_mad", {**alone["AutoAugment"], **ON_GRID}, Region(low=BOX_MAD),
              "min MAD, AutoAugment alone"),
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


def _most_on(data: str) -> Statistic:
    """Test whether Modern lowers min MAD more on a data set than on each of the others."""

    def sides(name: str, sign: float) -> list[tuple[float, str, Side]]:
        at = {"data.name": name}
        return [
            (sign, "min_mad", {**MODERN, **at}),
            (-sign, "min_mad", {**BASELINE, **at}),
        ]

    return parts(
        *(
            weighted_sum(
                [*sides(data, 1), *sides(other, -1)], BELOW,
                f"min MAD, Modern - Baseline, {data} - {other}",
            )
            for other in DATA
            if other != data
        )
    )  # fmt: skip


def _every_layer() -> Statistic:
    """Test CutMix's main effect on the mean entropy of each layer that an output reads."""
    return parts(
        *(
            main_effect(f"entropy_layer_{layer}", "cutmix", BELOW,
                        f"mean entropy of layer {layer}, main effect of CutMix")
            for layer in range(1, DEPTH)
        )
    )  # fmt: skip


def _join_numbers(values: Sequence[float]) -> str:
    return ", ".join(f"{value:.3f}" for value in values)


def _minus(one: str, other: str) -> str:
    """Describe the paper's min MAD of two conditions and their difference."""
    left, right = (PAPER_TABLE_2[name]["min_mad"] for name in (one, other))
    return f"{left:.3f} - {right:.3f} = {paper_difference('min_mad', one, other):.3f}"


def _points(*pairs: tuple[str, str, str]) -> str:
    """Describe the paper's differences of accuracy, by two protocols and a data set."""
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
        paper=f"with {_join_numbers(WITH)}; without {_join_numbers(WITHOUT)}",
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
        id="protocol-cutmix-steps", source="protocol paper, section 6.2, table 2",
        sentence="CutMix makes the most local head more local also at equal steps, where early "
        "stopping cannot be the cause.",
        value=EQUAL_STEPS, direction="main effect at the last common epoch below 0",
        statistic=main_effect(EQUAL_STEPS, "cutmix", BELOW,
                              "min MAD at equal steps, main effect of CutMix"),
        paper="its conditions stop at epochs that it does not give",
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
        id="protocol-cutmix-layers", source="protocol paper, section 6.2, figure 5",
        sentence="CutMix concentrates the attention of all layers.",
        value="entropy_layer_1", direction="main effect below 0 in every layer that is read",
        statistic=_every_layer(), num_parts=DEPTH - 1,
    ),
    ablation(
        id="protocol-removal", source="protocol paper, section 6.2, table 2",
        sentence="CutMix taken away from Modern raises min MAD.",
        value="min_mad", direction="Modern - Modern without CutMix: below 0",
        statistic=difference("min_mad", MODERN, flags(True, False, True), BELOW,
                             "min MAD, Modern - Modern without CutMix"),
        paper=_minus("modern", "modern-cutmix"),
    ),
    ablation(
        id="protocol-hierarchy", source="protocol paper, section 5.3, figures 3a and 3b",
        sentence="Under Modern attention reaches farther with depth, under Baseline it does not.",
        value="mad_rise", num_parts=2,
        direction="last read layer - layer 1: above 0 with Modern, and above Baseline's",
        statistic=parts(
            level("mad_rise", MODERN, ABOVE, "mean MAD, last read layer - layer 1, Modern"),
            difference("mad_rise", MODERN, BASELINE, ABOVE,
                       "mean MAD, last read layer - layer 1, Modern - Baseline"),
        ),
    ),
    ablation(
        id="protocol-first-layer", source="protocol paper, section 5.1, figure 1b",
        sentence="Under Modern the most local head of the model is in layer 1.",
        value="min_mad_layer", direction="its layer: at most 1",
        statistic=level("min_mad_layer", MODERN, Region(high=1.0), "layer of min MAD, Modern"),
    ),
    ablation(
        id="protocol-whole-first-layer", source="protocol paper, section 5.3, figure 3b",
        sentence="Under Modern all heads of layer 1 are local.",
        value="layer1_max_mad", direction=f"largest MAD of layer 1: at most {BOX_MAD}",
        statistic=level("layer1_max_mad", {**MODERN, **ON_GRID}, Region(high=BOX_MAD),
                        "largest MAD of a head of layer 1, Modern"),
    ),
    ablation(
        id="protocol-baseline-global", source="protocol paper, section 5.1, figure 1b",
        sentence="Under Baseline no layer develops local attention.",
        value="least_layer_mad", direction=f"least mean MAD of a read layer: at least {BOX_MAD}",
        statistic=level("least_layer_mad", {**BASELINE, **ON_GRID}, Region(low=BOX_MAD),
                        "least mean MAD of a layer, Baseline"),
    ),
    ablation(
        id="protocol-deep-alike", source="protocol paper, section 5.2, figure 2",
        sentence="Deep layers of Modern converge with those of Baseline.",
        value="mad_last_read", margin=NULL_SHARE,
        direction=f"difference in the last read layer at most {NULL_SHARE} of layer 1's",
        statistic=weighted_sum(
            [(1, "mad_last_read", MODERN), (-1, "mad_last_read", BASELINE),
             (NULL_SHARE, "mad_layer_1", MODERN), (-NULL_SHARE, "mad_layer_1", BASELINE)],
            BELOW, f"|Modern - Baseline|, last read layer - {NULL_SHARE} x layer 1", absolute=True,
        ),
    ),
    ablation(
        id="protocol-neighbours", source="protocol paper, section 5.1, figure 1b",
        sentence="The most local head of Modern looks at neighbours and not only at itself.",
        value="min_mad_self_mass", direction=f"its self-mass at most {MOSTLY}",
        statistic=level("min_mad_self_mass", MODERN, Region(high=MOSTLY),
                        "self-mass of the most local head, Modern"),
    ),
    Claim(
        id="protocol-identity", source="protocol paper, table 2",
        sentence="The heads behind the min MAD of the four conditions with CutMix are local rather "
        "than identity heads.",
        value="self_mass", direction=f"least self-mass that min MAD allows: at most {MOSTLY}",
        facts=self_mass_bounds, num_parts=4,
        statistic=parts(
            *(
                fact(name, Region(high=MOSTLY),
                     f"self-mass at least, {name.removeprefix('self_mass_')}")
                for name in self_mass_bounds()
            )
        ),
        paper=f"min MAD {_join_numbers(WITH)}, which bounds the self-mass from below",
    ),
    Claim(
        id="protocol-independence", source="protocol paper, section 6.2, table 2",
        sentence="Accuracy and locality are independent of each other.",
        value="rank_correlation", margin=ALIKE, num_parts=2,
        direction=f"rank correlation of accuracy and min MAD in table 2 within ±{ALIKE}",
        facts=rank_correlations,
        statistic=parts(
            fact("with_cutmix", within(ALIKE), "Spearman's rho, four conditions with CutMix"),
            fact("without_cutmix", within(ALIKE), "Spearman's rho, four conditions without"),
        ),
        paper="-1 within both groups",
    ),
    on_data(
        id="protocol-most-on-cifar100", source="protocol paper, section 5.1, figure 1",
        sentence="Modern lowers min MAD most on CIFAR-100.",
        value="min_mad", direction="each difference of differences below 0", num_parts=2,
        statistic=_most_on("cifar100"),
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
