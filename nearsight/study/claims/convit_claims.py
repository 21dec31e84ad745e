"""List the claims of ConViT (d'Ascoli et al., ICML 2021).

The paper contradicts itself in two places, where we follow its tables: the caption of figure 11
says that the gain grows with the data, but table 2 shows that it shrinks; and the text swaps rows
(f) and (g) of table 3.
"""

from __future__ import annotations

from functools import partial

from nearsight.study.claims.claim import ABOVE, ACCURACY_MARGIN, BELOW, Claim, Scale, within
from nearsight.study.claims.comparisons import (
    Side,
    difference,
    gain_by_data,
    level,
    slope,
    weighted_sum,
)
from nearsight.study.claims.paper_recipe import Settings, preset_recipe

SIZES = tuple(f"{size}{plus}" for size in ("tiny", "small", "base") for plus in ("", "_plus"))
MODELS = ("model.name", "model.num_heads", "model.gpsa", "kind")
OF_FRACTION = ("data.fraction", "epochs", "warmup_epochs", "patience")
GPSA = tuple(f"model.gpsa.{name}" for name in ("train_gates", "convolution", "train_attention"))

DEFAULT_LAYERS = 10  # of 12, if the settings do not give the number of GPSA layers


def _recipe_of(settings: Settings) -> str:
    return "deit_plus" if str(settings.get("size", "")).endswith("_plus") else "deit"


RECIPE = preset_recipe(
    _recipe_of,
    also=("a fifth of the training images held out to choose the epoch; the paper trains on all",),
)
SMALL = Scale(("convit_small", "deit_small"), {"imagenet": 300}, "14x14", recipe=RECIPE)
BASE = Scale(("convit_base", "deit_base"), {"imagenet": 300}, "14x14", recipe=RECIPE)
ALL = Scale(
    tuple(f"{kind}_{size}" for kind in ("convit", "deit") for size in SIZES),
    {"imagenet": 300},
    "14x14",
    recipe=RECIPE,
)
HUNDRED = Scale(
    ("convit_small_plus", "deit_small_plus"), {"imagenet-100": 300}, "14x14", recipe=RECIPE
)

PLAIN: Side = {"kind": "plain"}


def row(gates: bool, convolution: bool, attention: bool = True) -> Side:
    """Return the settings of a row of table 3 with GPSA, with ConViT's layers and strength."""
    settings = dict(zip(GPSA, (gates, convolution, attention)))
    return {"kind": "convit", **settings, "model.gpsa.strength": 1.0, "model.gpsa.layers": None}


CONVIT = row(True, True)
of_small = partial(Claim, compares=MODELS, scale=SMALL)
table3 = partial(Claim, compares=MODELS, scale=HUNDRED, value="accuracy")

CONVIT_CLAIMS: tuple[Claim, ...] = (
    of_small(
        id="convit-escape", source="ConViT, section 4, figure 5 right",
        sentence="GPSA layers escape locality: nonlocality grows in all of them.",
        value="gpsa_nonlocality", direction="growth of the layer that grows least: above 0",
        statistic=level("gpsa_nonlocality", CONVIT, ABOVE,
                        "nonlocality in patches, end - start, least of the GPSA layers"),
    ),
    of_small(
        id="convit-pulled", source="ConViT, section 4, figure 5 left",
        sentence="SA layers become local first: nonlocality falls in all layers of a DeiT.",
        value="early_nonlocality", direction="change of the layer that falls least: below 0",
        statistic=level("early_nonlocality", PLAIN, BELOW,
                        "nonlocality in patches, epoch 5 - start, most of the layers"),
    ),
    of_small(
        id="convit-stays", source="ConViT, section 4, figure 5",
        sentence="A trained ConViT is more local than a trained DeiT.",
        value="nonlocality", direction="difference below 0",
        statistic=difference("nonlocality", CONVIT, PLAIN, BELOW,
                             "nonlocality in patches, ConViT - DeiT"),
    ),
    of_small(
        id="convit-gates", source="ConViT, section 4, figure 6",
        sentence="Gates fall in all GPSA layers: attention goes from position to content.",
        value="gate_change", direction="change of the layer that falls least: below 0",
        statistic=level("gate_change", CONVIT, BELOW,
                        "mean gate, end - start, most of the GPSA layers"),
    ),
    Claim(
        id="convit-data", source="ConViT, table 2 (figure 11's caption says the opposite)",
        sentence="ConViT's gain over DeiT grows as data shrink.",
        value="accuracy", direction="growth of the relative gain per tenfold less data: above 0",
        compares=(*MODELS, *OF_FRACTION), scale=SMALL,
        statistic=gain_by_data("accuracy", CONVIT, PLAIN, ABOVE,
                               "relative gain in %, per tenfold less data"),
        paper="37, 24, 12, 5 and 2 % with 5, 10, 30, 50 and 100 % of the data",
    ),
    Claim(
        id="convit-accuracy", source="ConViT, table 1",
        sentence="A ConViT is more accurate than the DeiT of its size.",
        value="accuracy", direction="difference above 0", compares=MODELS, scale=ALL,
        statistic=difference("accuracy", CONVIT, PLAIN, ABOVE, "accuracy, ConViT - DeiT"),
        paper="0.9, 0.8, 1.5, 3.2, 0.6 and 5.0 points (Ti, Ti+, S, S+, B, B+)",
    ),
    table3(
        id="convit-convolution", source="ConViT, table 3, (a) and (c)",
        sentence="The start as a convolution improves accuracy.",
        direction="difference above 0",
        statistic=difference("accuracy", row(True, True), row(True, False), ABOVE,
                             "accuracy, with - without convolutional start"),
        paper="82.2 - 81.4 = 0.8 points",
    ),
    table3(
        id="convit-gating", source="ConViT, table 3, (a) and (b)",
        sentence="With the start as a convolution, training the gates improves accuracy.",
        direction="difference above 0",
        statistic=difference("accuracy", row(True, True), row(False, True), ABOVE,
                             "accuracy, trained - frozen gates, convolutional start"),
        paper="82.2 - 82.0 = 0.2 points",
    ),
    table3(
        id="convit-gating-random", source="ConViT, table 3, (c) and (d)",
        sentence="Without the start as a convolution, training the gates lowers accuracy.",
        direction="difference below 0",
        statistic=difference("accuracy", row(True, False), row(False, False), BELOW,
                             "accuracy, trained - frozen gates, random start"),
        paper="81.4 - 81.6 = -0.2 points",
    ),
    table3(
        id="convit-gpsa", source="ConViT, table 3, (d) and (e)",
        sentence="GPSA without gating and convolutional start already helps.",
        direction="difference above 0",
        statistic=difference("accuracy", row(False, False), PLAIN, ABOVE,
                             "accuracy, GPSA alone - DeiT"),
        paper="81.6 - 79.1 = 2.5 points",
    ),
    table3(
        id="convit-frozen", source="ConViT, table 3, (f) and (e)",
        sentence="Attention frozen at a convolutional start almost equals a trained DeiT.",
        direction=f"difference within ±{ACCURACY_MARGIN}", margin=ACCURACY_MARGIN,
        statistic=difference("accuracy", row(True, True, False), PLAIN, within(ACCURACY_MARGIN),
                             "accuracy, frozen ConViT - DeiT"),
        paper="78.6 - 79.1 = -0.5 points",
    ),
    table3(
        id="convit-frozen-random", source="ConViT, table 3, (g) and (a)",
        sentence="Attention frozen at a random start is much worse than a trained ConViT.",
        direction="difference below 0",
        statistic=difference("accuracy", row(True, False, False), CONVIT, BELOW,
                             "accuracy, frozen random attention - ConViT"),
        paper="73.7 - 82.2 = -8.5 points",
    ),
    table3(
        id="convit-early", source="ConViT, section 4, figure 8b", value="accuracy_epoch_20",
        sentence="After 20 epochs a ConViT is far ahead of the DeiT.",
        direction="difference above 0",
        statistic=difference("accuracy_epoch_20", CONVIT, PLAIN, ABOVE,
                             "accuracy after 20 epochs, ConViT - DeiT"),
        paper="with 9 GPSA layers almost double",
    ),
    Claim(
        id="convit-distilled-less", source="ConViT, appendix B, table 4",
        sentence="Distillation helps a ConViT less than a DeiT.",
        value="accuracy", direction="difference of differences below 0",
        compares=(*MODELS, "model.distilled", "distillation"), scale=SMALL,
        statistic=weighted_sum(
            [(1, "accuracy", {**CONVIT, "model.distilled": True}),
             (-1, "accuracy", {**CONVIT, "model.distilled": False}),
             (-1, "accuracy", {**PLAIN, "model.distilled": True}),
             (1, "accuracy", {**PLAIN, "model.distilled": False})],
            BELOW, "accuracy, gain by distillation, ConViT - DeiT",
        ),
    ),
    Claim(
        id="convit-layers", source="ConViT, figure 8a",
        sentence="Accuracy grows with the number of GPSA layers.",
        value="accuracy", direction="slope above 0",
        compares=("model.gpsa.layers", "kind"), scale=HUNDRED,
        statistic=slope("accuracy", {}, "model.gpsa.layers", ABOVE, "accuracy per GPSA layer",
                        default=DEFAULT_LAYERS),
    ),
    Claim(
        id="convit-strength", source="ConViT, figure 8a",
        sentence="Accuracy grows with the locality strength at the start.",
        value="accuracy", direction="slope above 0",
        compares=("model.gpsa.strength",), scale=HUNDRED,
        statistic=slope("accuracy", {"kind": "convit"}, "model.gpsa.strength", ABOVE,
                        "accuracy per unit of strength"),
    ),
    Claim(
        id="convit-psa", source="ConViT, appendix A, figure 9",
        sentence="Without gates (PSA) a ConViT ends below the DeiT.",
        value="accuracy", direction="difference below 0", compares=MODELS, scale=BASE,
        statistic=difference("accuracy", {"kind": "psa"}, PLAIN, BELOW, "accuracy, PSA - DeiT"),
    ),
    Claim(
        id="convit-distilled", source="ConViT, appendix B, figure 10",
        sentence="Distillation from a convolutional teacher makes a DeiT more local.",
        value="nonlocality", direction="difference below 0",
        compares=("model.distilled", "distillation"), scale=SMALL,
        statistic=difference("nonlocality", {**PLAIN, "model.distilled": True},
                             {**PLAIN, "model.distilled": False}, BELOW,
                             "nonlocality in patches, distilled - not"),
    ),
)  # fmt: skip
