"""Claims of LocAt: Hajimiri et al., arXiv 2603.04892."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial

from nearsight.protocol import GaussianSettings
from nearsight.study.claims.claim import ABOVE, ACCURACY_MARGIN, BELOW, Claim, Region, Scale
from nearsight.study.claims.comparisons import Side, difference, parts

MODELS = ("model.name", "model.locat", "model.pool", "kind")
TINY_BASE = tuple(
    name for size in ("tiny", "base") for name in (f"vit_{size}_patch16_224", f"locatvit_{size}")
)
SMALL = ("vit_small_patch16_224", "locatvit_small")
IMAGENET = Scale(TINY_BASE, {"imagenet": 300}, "14x14")
ON_CIFAR = Scale((*TINY_BASE, *SMALL), {"cifar100": 600}, "14x14")
ON_MINI = Scale(TINY_BASE, {"mini-imagenet": 600}, "14x14")
BASE = Scale(TINY_BASE[2:], {"imagenet": 300}, "14x14")

PLAIN: Side = {"kind": "plain"}
GAP: Side = {"kind": "gap"}
PRR: Side = {"kind": "prr"}
GAUSSIAN: Side = {f"model.locat.gaussian.{x}": y for x, y in asdict(GaussianSettings()).items()}
GAUG: Side = {"kind": "gaug", **GAUSSIAN}
LOCAT: Side = {"kind": "locat", **GAUSSIAN}
STRENGTH = "model.locat.gaussian.strength"
SEGMENTATION = "evaluate: segmentation on frozen features"
HUMMINGBIRD = "evaluate: Hummingbird"

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
        value="segmentation_miou", direction="difference above 0", needs=SEGMENTATION,
        statistic=difference("segmentation_miou", PRR, GAP, ABOVE, "segmentation mIoU, PRR - GAP"),
        paper="ADE20K: 1.95 and 1.90 points (Tiny, Base)",
    ),
    on_imagenet(
        id="locat-segmentation", source="LocAt, table 1",
        sentence="LocAt improves segmentation on frozen features.",
        value="segmentation_miou", direction="difference above 0", needs=SEGMENTATION,
        statistic=difference("segmentation_miou", LOCAT, PLAIN, ABOVE,
                             "segmentation mIoU, LocAt - ViT"),
        paper="ADE20K: 6.17 and 4.24 points (Tiny, Base)",
    ),
    on_imagenet(
        id="locat-hummingbird", source="LocAt, table 4",
        sentence="LocAt improves segmentation by nearest neighbours of patches.",
        value="hummingbird_miou", direction="difference above 0", needs=HUMMINGBIRD,
        statistic=difference("hummingbird_miou", LOCAT, PLAIN, ABOVE,
                             "Hummingbird mIoU, LocAt - ViT"),
        paper="PASCAL VOC: 11.1 and 2.9 points (Tiny, Base)",
    ),
    Claim(
        id="locat-neighbours", source="LocAt, appendix F, figure 5a",
        sentence="With LocAt neighbouring patches are more alike in late layers.",
        value="last_locality_score", direction="difference above 0", compares=MODELS, scale=BASE,
        statistic=difference("last_locality_score", LOCAT, PLAIN, ABOVE,
                             "locality score of the last layer, LocAt - ViT"),
    ),
    Claim(
        id="locat-class-token", source="LocAt, appendix F, figure 5b",
        sentence="With LocAt patches are less like the class token in late layers.",
        value="last_cls_similarity", direction="difference below 0", compares=MODELS, scale=BASE,
        statistic=difference("last_cls_similarity", LOCAT, PLAIN, BELOW,
                             "patch-[CLS] similarity of the last layer, LocAt - ViT"),
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
    Claim(
        id="locat-strength", source="LocAt, appendix D.3, table 7",
        sentence="The Gaussian needs its learned strength.",
        value="accuracy", direction="difference above 0", compares=MODELS, scale=ON_MINI,
        statistic=difference("accuracy", LOCAT, {**LOCAT, STRENGTH: "one"}, ABOVE,
                             "accuracy, learned strength - strength 1"),
        paper="2.21 and 1.79 points (Tiny, Base)",
    ),
)  # fmt: skip
