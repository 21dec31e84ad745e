"""List the claims of LocAt (Hajimiri et al., arXiv 2603.04892)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from functools import lru_cache, partial

from nearsight.protocol import DROP_PATH, GaussianSettings
from nearsight.study.claims.claim import (
    ABOVE,
    ACCURACY_MARGIN,
    BELOW,
    Claim,
    PaperEvaluation,
    Region,
    Scale,
    within,
)
from nearsight.study.claims.comparisons import (
    Side,
    across_layers,
    difference,
    fact,
    parts,
    weighted_sum,
)
from nearsight.study.claims.paper_recipe import Expected, PaperRecipe, Settings

MODELS = ("model.name", "model.locat", "model.pool", "kind")
TINY_BASE = tuple(
    name for size in ("tiny", "base") for name in (f"vit_{size}_patch16_224", f"locatvit_{size}")
)
SMALL = ("vit_small_patch16_224", "locatvit_small")
ADDED = 2340  # parameters of GAug in 12 layers with heads of width 64
NEGLIGIBLE = 0.02  # a share of the operations; the paper calls its increase negligible


def _expected(settings: Settings) -> Expected:
    """Return the training settings of section 5.1 that our protocols have too."""
    large = settings["data.name"] == "imagenet"
    return {
        "optimizer.lr": 1e-3 if large else 5e-4, "optimizer.weight_decay": 0.05,
        "optimizer.clip_norm": 5.0, "batch_size": 1024, "warmup_epochs": 20.0 if large else 120.0,
        "patience": None, "randaugment": True, "randaugment.magnitude": 9.0,
        "randaugment.magnitude_std": 0.5, "mixup": True, "mixup.alpha": 0.8, "cutmix": True,
        "cutmix.alpha": 1.0, "random_erasing": True, "random_erasing.probability": 0.25,
        "label_smoothing": 0.1, "autoaugment": False, "cutout": False,
        "distillation": str(settings.get("size")).startswith("jumbo"),  # from DeiT-III
        "model.drop_path": next(
            (x for size, x in DROP_PATH.items() if size in str(settings.get("size")).split("_")),
            None,
        ),
        "optimizer.schedule": "triangular",
    }  # fmt: skip


def _assumed(settings: Settings) -> Sequence[str]:
    return [
        "a fifth of the training images held out to choose the epoch; the paper trains on all",
        "a learning rate of 0 at both ends of the triangle",
    ]


RECIPE = PaperRecipe(_expected, _assumed)
IMAGENET = Scale(TINY_BASE, {"imagenet": 300}, "14x14", recipe=RECIPE)
ON_CIFAR = Scale((*TINY_BASE, *SMALL), {"cifar100": 600}, "14x14", recipe=RECIPE)
ON_MINI = Scale((*TINY_BASE, *SMALL), {"mini-imagenet": 600}, "14x14", recipe=RECIPE)
BASE = Scale(TINY_BASE[2:], {"imagenet": 300}, "14x14", recipe=RECIPE)

PLAIN: Side = {"kind": "plain"}
GAP: Side = {"kind": "gap"}
PRR: Side = {"kind": "prr"}
GAUSSIAN: Side = {f"model.locat.gaussian.{x}": y for x, y in asdict(GaussianSettings()).items()}
GAUG: Side = {"kind": "gaug", **GAUSSIAN}
LOCAT: Side = {"kind": "locat", **GAUSSIAN}
GAUSSIAN_PATH = "model.locat.gaussian"
STRENGTH, WIDTH = f"{GAUSSIAN_PATH}.strength", f"{GAUSSIAN_PATH}.width"
COUNTED = ("tiny", "base")
DENSE_SETS = ("ade20k", "pascal-context", "coco-stuff")
SEGMENTATION = PaperEvaluation("segmentation", "locat", DENSE_SETS, "random crops")
HUMMINGBIRD = PaperEvaluation("hummingbird", "hummingbird", ("voc2012", "ade20k"))


@lru_cache
def costs() -> dict[str, float]:
    """Count the parameters and multiply-adds that LocAt adds to ViT, by building the models."""
    from nearsight.models.cost import named_cost

    found: dict[str, float] = {}
    for size in COUNTED:
        known = named_cost(f"locatvit_{size}")
        assert known.plain is not None, "a model with LocAt has a plain one"
        added = known.cost.num_parameters - known.plain.num_parameters
        all_macs = known.cost.macs + known.cost.skipped_macs
        found[f"added_parameters_{size}"] = float(added)
        found[f"added_operations_{size}"] = all_macs / known.plain.macs - 1
    return found


on_imagenet = partial(Claim, compares=MODELS, scale=IMAGENET)

LOCAT_CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="locat-small-data", source="LocAt, table 3",
        sentence="LocAt improves accuracy on CIFAR-100.",
        value="accuracy", direction="difference above 0", compares=MODELS, scale=ON_CIFAR,
        statistic=difference("accuracy", LOCAT, PLAIN, ABOVE, "accuracy, LocAt - ViT"),
        paper="6.6, 4.8 and 5.3 points (Tiny, Small, Base)",
    ),
    on_imagenet(
        id="locat-no-cost", source="LocAt, table 1",
        sentence="LocAt does not cost accuracy on ImageNet.",
        value="accuracy", direction=f"difference at least -{ACCURACY_MARGIN}",
        margin=ACCURACY_MARGIN,
        statistic=difference("accuracy", LOCAT, PLAIN, Region(low=-ACCURACY_MARGIN),
                             "accuracy, LocAt - ViT"),
        paper="1.55 and 1.32 points (Tiny, Base)",
    ),
    on_imagenet(
        id="locat-parts", source="LocAt, table 5",
        sentence="GAug and PRR each improve accuracy, and both together more than either.",
        value="accuracy", direction="each difference above 0", num_parts=4,
        statistic=parts(
            difference("accuracy", GAUG, PLAIN, ABOVE, "accuracy, GAug - ViT"),
            difference("accuracy", PRR, PLAIN, ABOVE, "accuracy, PRR - ViT"),
            difference("accuracy", LOCAT, GAUG, ABOVE, "accuracy, both - GAug"),
            difference("accuracy", LOCAT, PRR, ABOVE, "accuracy, both - PRR"),
        ),
        paper="Tiny: 72.39, GAug 73.16, PRR 73.71, both 73.94",
    ),
    on_imagenet(
        id="locat-prr-gap-accuracy", source="LocAt, table 5",
        sentence="PRR improves accuracy more than GAP.",
        value="accuracy", direction="difference above 0",
        statistic=difference("accuracy", PRR, GAP, ABOVE, "accuracy, PRR - GAP"),
        paper="1.21 and 0.35 points (Tiny, Base)",
    ),
    on_imagenet(
        id="locat-prr-gap", source="LocAt, table 5",
        sentence="PRR helps more than GAP for dense features.",
        value="segmentation_miou", direction="difference above 0", evaluated=SEGMENTATION,
        statistic=difference("segmentation_miou", PRR, GAP, ABOVE, "segmentation mIoU, PRR - GAP"),
        paper="ADE20K: 1.95 and 1.90 points (Tiny, Base)",
    ),
    on_imagenet(
        id="locat-segmentation", source="LocAt, table 1",
        sentence="LocAt improves segmentation on frozen features.",
        value="segmentation_miou", direction="difference above 0", evaluated=SEGMENTATION,
        statistic=difference("segmentation_miou", LOCAT, PLAIN, ABOVE,
                             "segmentation mIoU, LocAt - ViT"),
        paper="ADE20K: 6.17 and 4.24 points (Tiny, Base)",
    ),
    on_imagenet(
        id="locat-hummingbird", source="LocAt, table 4",
        sentence="LocAt improves segmentation by nearest neighbours of patches.",
        value="hummingbird_miou", direction="difference above 0", evaluated=HUMMINGBIRD,
        statistic=difference("hummingbird_miou", LOCAT, PLAIN, ABOVE,
                             "Hummingbird mIoU, LocAt - ViT"),
        paper="PASCAL VOC: 11.1 and 2.9 points (Tiny, Base)",
    ),
    Claim(
        id="locat-neighbours", source="LocAt, appendix F, figure 5a",
        sentence="With LocAt neighbouring patches are more alike in every layer after the third.",
        value="locality_score_layer_4", compares=MODELS, scale=BASE,
        direction="difference of the layer that differs least: above 0",
        statistic=across_layers("locality_score", LOCAT, PLAIN, 3, True,
                                "locality score, LocAt - ViT, least of the layers after the third"),
    ),
    Claim(
        id="locat-class-token", source="LocAt, appendix F, figure 5b",
        sentence="With LocAt patches are less like the class token in every layer after the third.",
        value="cls_similarity_layer_4", compares=MODELS, scale=BASE,
        direction="difference of the layer that differs least: below 0",
        statistic=across_layers("cls_similarity", LOCAT, PLAIN, 3, False,
                                "patch-[CLS] similarity, LocAt - ViT, most of layers after third"),
    ),
    Claim(
        id="locat-class-rises", source="LocAt, appendix F, figure 5b",
        sentence="In a plain ViT patches become more like the class token with depth.",
        value="cls_similarity_layer_12", compares=MODELS, scale=BASE,
        direction="last layer - fourth layer: above 0",
        statistic=weighted_sum([(1, "cls_similarity_layer_12", PLAIN),
                            (-1, "cls_similarity_layer_4", PLAIN)],
                           ABOVE, "patch-[CLS] similarity, layer 12 - layer 4, ViT"),
    ),
    Claim(
        id="locat-parameters", source="LocAt, tables 1 and 3",
        sentence="LocAt adds 2,340 parameters to ViT, Tiny and Base alike.",
        value="added_parameters", direction=f"at most {ADDED}", facts=costs, num_parts=2,
        statistic=parts(*(fact(f"added_parameters_{size}", Region(high=ADDED),
                               f"parameters added to ViT, {size}") for size in COUNTED)),
        paper="2,340",
    ),
    Claim(
        id="locat-flops", source="LocAt, table 1",
        sentence="LocAt adds a negligible number of operations to ViT.",
        value="added_operations", margin=NEGLIGIBLE, facts=costs, num_parts=2,
        direction=f"at most {100 * NEGLIGIBLE:g} % more multiply-adds",
        statistic=parts(*(fact(f"added_operations_{size}", Region(high=NEGLIGIBLE),
                               f"multiply-adds added to ViT, {size}", "percent")
                          for size in COUNTED)),
        paper="1.26 to 1.27 G and 17.58 to 17.64 G (Tiny, Base)",
    ),
    Claim(
        id="locat-mini", source="LocAt, table 3",
        sentence="LocAt improves accuracy on mini-ImageNet.",
        value="accuracy", direction="difference above 0", compares=MODELS, scale=ON_MINI,
        statistic=difference("accuracy", LOCAT, PLAIN, ABOVE, "accuracy, LocAt - ViT"),
        paper="3.53, 5.32 and 4.95 points (Tiny, Small, Base)",
    ),
    Claim(
        id="locat-fixed-width", source="LocAt, appendix D.2, table 7",
        sentence="A kernel of fixed width is substantially worse than a predicted one.",
        value="accuracy", direction="difference above 0", compares=MODELS, scale=ON_MINI,
        statistic=difference("accuracy", LOCAT, {**LOCAT, WIDTH: 1.0}, ABOVE,
                             "accuracy, predicted width - width of one patch"),
    ),
    Claim(
        id="locat-isotropic", source="LocAt, appendix D.2, table 7",
        sentence="An isotropic kernel performs as well as one with a width for each axis.",
        value="accuracy", direction=f"difference within ±{ACCURACY_MARGIN}",
        margin=ACCURACY_MARGIN, compares=MODELS, scale=ON_MINI,
        statistic=difference("accuracy", {**LOCAT, f"{GAUSSIAN_PATH}.isotropic": True}, LOCAT,
                             within(ACCURACY_MARGIN), "accuracy, isotropic - two widths"),
        paper="0.24 and -0.20 points (Tiny, Base)",
    ),
    Claim(
        id="locat-auto-strength", source="LocAt, appendix D.4, table 7",
        sentence="A strength without parameters performs close to the learned one.",
        value="accuracy", direction=f"difference within ±{ACCURACY_MARGIN}",
        margin=ACCURACY_MARGIN, compares=MODELS, scale=ON_MINI,
        statistic=difference("accuracy", {**LOCAT, STRENGTH: "auto"}, LOCAT,
                             within(ACCURACY_MARGIN), "accuracy, automatic - learned strength"),
    ),
    on_imagenet(
        id="locat-gap-dense", source="LocAt, table 5", scale=BASE,
        sentence="GAP hurts segmentation on frozen features in the Base backbone.",
        value="segmentation_miou", direction="difference below 0", evaluated=SEGMENTATION,
        statistic=difference("segmentation_miou", GAP, PLAIN, BELOW,
                             "segmentation mIoU, GAP - [CLS]"),
    ),
    on_imagenet(
        id="locat-kernel", source="LocAt, appendix E, table 8",
        sentence="The Gaussian is the best kernel for segmentation on frozen features.",
        value="segmentation_miou", direction="each difference above 0", evaluated=SEGMENTATION,
        num_parts=2,
        statistic=parts(*(
            difference("segmentation_miou", LOCAT, {**LOCAT, f"{GAUSSIAN_PATH}.kernel": kernel},
                       ABOVE, f"segmentation mIoU, Gaussian - {kernel}")
            for kernel in ("laplace", "inverse")
        )),
    ),
    on_imagenet(
        id="locat-positions", source="LocAt, table 5",
        sentence="LocAt without positional embeddings is more accurate than ViT with them.",
        value="accuracy", direction="difference above 0", compares=(*MODELS, "model.positions"),
        statistic=difference("accuracy", {**LOCAT, "model.positions": False},
                             {**PLAIN, "model.positions": True}, ABOVE,
                             "accuracy, LocAt without positions - ViT with"),
        paper="0.71 and 1.18 points (Tiny, Base)",
    ),
    on_imagenet(
        id="locat-positions-dense", source="LocAt, table 5",
        sentence="LocAt without positional embeddings segments better than ViT with them.",
        value="segmentation_miou", direction="difference above 0", evaluated=SEGMENTATION,
        compares=(*MODELS, "model.positions"),
        statistic=difference("segmentation_miou", {**LOCAT, "model.positions": False},
                             {**PLAIN, "model.positions": True}, ABOVE,
                             "segmentation mIoU, LocAt without positions - ViT with"),
        paper="ADE20K: 5.39 and 1.33 points (Tiny, Base)",
    ),
    Claim(
        id="locat-strength", source="LocAt, appendix D.3, table 7",
        sentence="The Gaussian needs its learned strength.",
        value="accuracy", direction="difference above 0", compares=MODELS, scale=ON_MINI,
        statistic=difference("accuracy", LOCAT, {**LOCAT, STRENGTH: "one"}, ABOVE,
                             "accuracy, learned strength - strength 1"),
        paper="2.21 and 1.79 points (Tiny, Base)",
    ),
)  # fmt: skip
