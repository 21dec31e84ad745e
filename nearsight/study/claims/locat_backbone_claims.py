"""List the claims of LocAt on other backbones, self-supervision, and its learned widths."""

from __future__ import annotations

from functools import partial

from nearsight.study.claims.claim import (
    ABOVE,
    ACCURACY_MARGIN,
    Claim,
    PaperEvaluation,
    Region,
    Scale,
    within,
)
from nearsight.study.claims.comparisons import Side, difference, level, parts, weighted_sum
from nearsight.study.claims.locat_claims import LOCAT, MODELS, PLAIN, RECIPE, SEGMENTATION
from nearsight.study.claims.paper_recipe import preset_recipe

IMAGENET = {"imagenet": 300}
MIOU = "segmentation_miou"
FEW_NEAR_BOUNDS = 0.05  # a share of the widths; the paper says that they do not cluster there
SWIN_SIZES = ("tiny", "base")
DINO_RECIPE = preset_recipe(
    lambda settings: "dino",
    also=(
        "all settings of DINO but the 50 epochs, as its authors publish them",
        "a fifth of the training images held out to choose the epoch; the paper trains on all",
        "the linear layer is trained on plain and mirrored images, without random crops",
    ),
)
FROZEN_CLASSES = PaperEvaluation(
    "knn,linear with method=dino", "dino", ("imagenet",),
    values=("linear_accuracy", "knn_accuracy"),
)  # fmt: skip


def _scale(models: tuple[str, ...], grid: str = "14x14") -> Scale:
    return Scale(models, IMAGENET, grid, recipe=RECIPE)


def _both_sizes(*names: str) -> tuple[str, ...]:
    return tuple(name.format(size) for size in ("tiny", "base") for name in names)


# By the end of the claim's id: the name of the backbone, the settings that select it, its scale,
# and the gains in mIoU and in accuracy that the paper gives.
BACKBONES: dict[str, tuple[str, Side, Scale, str, str]] = {
    "swin": (
        "Swin", {}, _scale(_both_sizes("swin_{}_patch4_window7_224", "locatswin_{}"), "56x56"),
        "0.94 and 0.99", "0.25 and 0.02",
    ),
    "registers": (
        "RegViT", {"model.num_registers": 4},
        _scale(_both_sizes("vit_{}_patch16_224", "locatvit_{}")), "8.41 and 4.78", "1.18 and 1.48",
    ),
    "rope": (
        "RoPEViT", {},
        _scale(_both_sizes("vit_{}_patch16_rope_mixed_224", "locatvit_{}_rope_mixed")),
        "5.31 and 3.56", "0.74 and 0.38",
    ),
    "jumbo": (
        "Jumbo", {}, _scale(_both_sizes("jumbo_{}", "locatjumbo_{}")),
        "1.29 and 3.49", "0.07 and 0.01",
    ),
}  # fmt: skip

on_backbone = partial(Claim, compares=MODELS)


def _gain(id: str) -> Claim:
    name, picks, scale, gain, _ = BACKBONES[id]
    return on_backbone(
        id=f"locat-{id}", source="LocAt, table 1", scale=scale, value=MIOU, evaluated=SEGMENTATION,
        sentence=f"LocAt improves segmentation on frozen features of {name}.",
        direction="difference above 0",
        statistic=difference(MIOU, {**LOCAT, **picks}, {**PLAIN, **picks}, ABOVE,
                             f"segmentation mIoU, LocAt - {name}"),
        paper=f"ADE20K: {gain} points (Tiny, Base)",
    )  # fmt: skip


def _no_cost(id: str) -> Claim:
    name, picks, scale, _, gain = BACKBONES[id]
    return on_backbone(
        id=f"locat-{id}-accuracy", source="LocAt, table 1", scale=scale, value="accuracy",
        sentence=f"LocAt does not cost {name} accuracy on ImageNet.",
        direction=f"difference at least -{ACCURACY_MARGIN}", margin=ACCURACY_MARGIN,
        statistic=difference("accuracy", {**LOCAT, **picks}, {**PLAIN, **picks},
                             Region(low=-ACCURACY_MARGIN), f"accuracy, LocAt - {name}"),
        paper=f"{gain} points (Tiny, Base)",
    )  # fmt: skip


def _more_than_on_swin(size: str) -> list[tuple[float, str, Side]]:
    """Return the terms of the gain of a ViT minus the gain of a Swin of the same size."""
    return [
        (1, MIOU, {**LOCAT, "model.name": f"locatvit_{size}"}),
        (-1, MIOU, {**PLAIN, "model.name": f"vit_{size}_patch16_224"}),
        (-1, MIOU, {**LOCAT, "model.name": f"locatswin_{size}"}),
        (1, MIOU, {**PLAIN, "model.name": f"swin_{size}_patch4_window7_224"}),
    ]


LOCAT_BACKBONE_CLAIMS: tuple[Claim, ...] = (
    *(_gain(id) for id in BACKBONES),
    *(_no_cost(id) for id in BACKBONES),
    Claim(
        id="locat-windowed", source="LocAt, appendix H, table 1",
        sentence="LocAt improves segmentation more with global than with windowed attention.",
        value=MIOU, direction="gain of ViT - gain of Swin: above 0 in both sizes",
        compares=(*MODELS, "size", "grid", "model.drop_path"), evaluated=SEGMENTATION, num_parts=2,
        scale=_scale(_both_sizes("vit_{}_patch16_224", "locatvit_{}",
                                 "swin_{}_patch4_window7_224", "locatswin_{}"),
                     "14x14 or 56x56"),
        statistic=parts(*(
            weighted_sum(_more_than_on_swin(size), ABOVE,
                     f"segmentation mIoU, gain of ViT - gain of Swin, {size}")
            for size in SWIN_SIZES
        )),
        paper="ADE20K: 5.23 and 3.25 points (Tiny, Base)",
    ),
    Claim(
        id="locat-gcvit", source="LocAt, appendix H, section on limitations",
        sentence="LocAt brings GCViT, whose windows are small, no improvement.",
        value="accuracy", direction=f"difference within ±{ACCURACY_MARGIN}",
        margin=ACCURACY_MARGIN, compares=MODELS,
        scale=_scale(("gcvit_tiny", "gcvit_base"), "56x56"),
        statistic=difference("accuracy", LOCAT, PLAIN, within(ACCURACY_MARGIN),
                             "accuracy, LocAt - GCViT"),
    ),
    Claim(
        id="locat-dino", source="LocAt, table 3, section 5.2",
        sentence="LocAt improves a ViT-S that DINO trains, by a linear classifier and by "
        "nearest neighbours.",
        value="linear_accuracy", direction="each difference above 0", num_parts=2,
        compares=MODELS, evaluated=FROZEN_CLASSES,
        scale=Scale(("vit_small_patch16_224", "locatvit_small"), {"imagenet": 50}, "14x14",
                    recipe=DINO_RECIPE),
        statistic=parts(
            difference("linear_accuracy", LOCAT, PLAIN, ABOVE, "linear accuracy, LocAt - ViT"),
            difference("knn_accuracy", LOCAT, PLAIN, ABOVE, "k-NN accuracy, LocAt - ViT"),
        ),
        paper="2.13 points (linear), 1.88 to 2.27 points (k-NN)",
    ),
    Claim(
        id="locat-widths", source="LocAt, appendix G, figure 6",
        sentence="The learned widths stay well inside their bounds in every layer.",
        value="widths_near_bounds", margin=FEW_NEAR_BOUNDS,
        direction=f"share near a bound, most of the layers: at most {FEW_NEAR_BOUNDS}",
        compares=MODELS, scale=_scale(("locatvit_base",)),
        statistic=level("widths_near_bounds", LOCAT, Region(high=FEW_NEAR_BOUNDS),
                        "share of widths near a bound, most of the layers"),
    ),
)  # fmt: skip
