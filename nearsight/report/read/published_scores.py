"""Published scores to show beside our own, with the settings in which they differ.

They come from LocAt (arXiv 2603.04892, tables 1, 3, 4 and 6), Naseer et al. 2021, DINOv2, DINOv3,
RADIO, Franca, CAPI and open-hummingbird. They are never averaged with ours, because they were
obtained with other training images, other image sizes and other weights.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

LOCAT = "LocAt"
AT_224 = "all training images of the full set at 224"
AT_512 = "random crops of 512 in training, whole images in the test"


class PublishedScore(NamedTuple):
    """A published score of a model, and a pattern that finds our models to show it beside."""

    method: str
    data: str
    number: str  # the number of ours that it is compared with
    model: str  # its name in tables
    pattern: str  # regular expression that matches our names of this model
    value: float  # 0..1
    source: str
    setting: str


def _score_pairs(
    method: str, setting: str, sets: Sequence[str], table: str, values: str
) -> Iterator[PublishedScore]:
    """Parse a table that has every model twice: plain and with LocAt.

    A line has the name of the model, the pattern and the scores of the plain model, and the pattern
    and the scores of the model with LocAt. Scores are in percent, one per data set.
    """
    for line in values.strip().splitlines():
        family, plain, plain_values, changed, changed_values = line.split()
        for ending, pattern, numbers in (
            ("", plain, plain_values), ("+LocAt", changed, changed_values),
        ):  # fmt: skip
            for data, value in zip(sets, numbers.split("/")):
                yield PublishedScore(
                    method, data, "mIoU", f"{family}{ending}", pattern, float(value) / 100,
                    f"{LOCAT}, {table}", setting,
                )  # fmt: skip


def _scores(
    method: str,
    sets: Sequence[str],
    source: str,
    setting: str,
    values: str,
    number: str = "mIoU",
) -> Iterator[PublishedScore]:
    """Parse a table: a line has the name of a model, its pattern, and a percentage per data set."""
    for line in values.strip().splitlines():
        model, pattern, numbers = line.split()
        for data, value in zip(sets, numbers.split("/")):
            if value != "–":
                yield PublishedScore(
                    method, data, number, model.replace("-", " ", 1) if "/" in model else model,
                    pattern, float(value) / 100, source, setting,
                )  # fmt: skip


PUBLISHED: tuple[PublishedScore, ...] = (
    *_score_pairs("hummingbird", AT_224, ("voc2012", "ade20k"), "table 4", r"""
        ViT-Ti ^(?:timm/)?vit_tiny_patch16_224 39.2/12.0 ^locatvit_tiny$ 50.3/15.2
        Swin-Ti ^(?:timm/)?swin_tiny 45.2/16.1 ^locatswin_tiny$ 45.3/16.3
        RegViT-Ti ^(?:timm/)?vit_tiny_.*reg 39.4/12.5 ^locatvit_tiny_reg 52.3/15.9
        RoPE-Ti ^(?:timm/)?vit_tiny_.*rope 50.7/16.0 ^locatvit_tiny_rope 54.7/17.5
        Jumbo-Ti ^jumbo_tiny$ 40.0/13.3 ^locatjumbo_tiny$ 45.5/14.5
        ViT-B ^(?:timm/)?vit_base_patch16_224 55.8/19.5 ^locatvit_base$ 58.7/21.5
        Swin-B ^(?:timm/)?swin_base 57.6/23.3 ^locatswin_base$ 62.8/24.6
        RegViT-B ^(?:timm/)?vit_base_.*reg 55.5/19.4 ^locatvit_base_reg 60.3/22.8
        RoPE-B ^(?:timm/)?vit_base_.*rope 61.0/22.4 ^locatvit_base_rope 61.4/23.7
        Jumbo-B ^jumbo_base$ 58.5/21.6 ^locatjumbo_base$ 63.8/23.7
    """),
    *_score_pairs("locat", AT_512, ("ade20k", "pascal-context", "coco-stuff"), "table 1", r"""
        ViT-Ti ^(?:timm/)?vit_tiny_patch16_224 17.30/33.71/20.29 ^locatvit_tiny$ 23.47/38.57/26.15
        Swin-Ti ^(?:timm/)?swin_tiny 25.58/36.78/28.34 ^locatswin_tiny$ 26.52/37.65/29.09
        RegViT-Ti ^(?:timm/)?vit_tiny_.*reg 15.98/33.45/19.58 ^locatvit_tiny_reg 24.39/39.90/27.38
        RoPE-Ti ^(?:timm/)?vit_tiny_.*rope 19.17/38.16/22.75 ^locatvit_tiny_rope 24.48/40.79/27.98
        Jumbo-Ti ^jumbo_tiny$ 20.33/36.36/22.13 ^locatjumbo_tiny$ 21.62/37.22/23.87
        ViT-B ^(?:timm/)?vit_base_patch16_224 28.40/43.10/30.43 ^locatvit_base$ 32.64/45.35/33.62
        Swin-B ^(?:timm/)?swin_base 31.90/40.11/33.60 ^locatswin_base$ 32.89/41.44/34.20
        RegViT-B ^(?:timm/)?vit_base_.*reg 27.93/41.81/28.99 ^locatvit_base_reg 32.71/46.14/34.12
        RoPE-B ^(?:timm/)?vit_base_.*rope 31.38/48.83/34.35 ^locatvit_base_rope 34.94/49.24/36.37
        Jumbo-B ^jumbo_base$ 32.20/47.31/34.65 ^locatjumbo_base$ 35.69/49.20/35.84
    """),
    *_scores("locat", ("ade20k", "pascal-context", "coco-stuff"), "LocAt, table 6", AT_512, r"""
        CvT-21 cvt.*21 21.40/40.91/29.29
        Conformer conformer.*base 22.11/40.03/26.37
        ConViT-B convit_base 23.08/44.82/25.20
        Twins-B twins.*base 30.47/44.55/32.27
        DaViT-B davit_base 30.68/44.87/32.38
        GCViT-B gcvit_base 30.91/44.71/32.77
    """),
    *(
        score
        for patches, values in (
            ("100,000", "37.2 44.9 70.2 69.1"),
            ("1 million", "43.1 50.8 74.9 74.6"),
            ("10 million", "46.6 55.7 77.0 76.9"),
        )
        for score in _scores(
            "open-hummingbird", ("voc2012",), "open-hummingbird",
            f"10,582 training images at 512, memory of {patches} patches",
            "\n".join(
                f"{line} {value}"
                for line, value in zip(
                    (
                        "DINO-S/16 vit_small_patch16.*dino", "DINO-B/16 vit_base_patch16.*dino",
                        "DINOv2-S/14 vit_small_patch14.*dinov2",
                        "DINOv2-B/14 vit_base_patch14.*dinov2",
                    ),
                    values.split(),
                )
            ),
            "mIoU (compat)",
        )
    ),
    *_scores("dinov2", ("voc2012", "ade20k"), "DINOv2", "crops of 512, 40,000 steps", r"""
        DINOv2-S/14 vit_small_patch14.*dinov2 –/44
        DINOv2-B/14 vit_base_patch14.*dinov2 82.5/–
        DINOv2-L/14 vit_large_patch14.*dinov2 –/47.7
        DINOv2-g/14 vit_giant_patch14.*dinov2 –/49.0
    """),
    *_scores("dinov2", ("ade20k",), "DINOv2", "several layers, several scales in the test", r"""
        DINOv2-S/14 vit_small_patch14.*dinov2 47.2
        DINOv2-B/14 vit_base_patch14.*dinov2 51.3
        DINOv2-L/14 vit_large_patch14.*dinov2 53.1
        DINOv2-g/14 vit_giant_patch14.*dinov2 53.0
    """),
    *_scores("dinov2", ("voc2012", "ade20k"), "RADIO", "linear head, 80,000 steps", r"""
        CLIP-L vit_large_patch14.*clip 67.0/36.5
        SigLIP-L vit_large_patch16_siglip 70.3/40.5
        DINOv2-g-reg vit_giant_patch14_reg4_dinov2 82.8/48.7
        SAM-H samvit_huge 34.3/28.1
        RADIOv2.5-B radio.*base 84.4/48.9
    """),
    *_scores("dinov3", ("ade20k",), "DINOv3",
             "crops of 512, 40,000 steps, the best of 8 evaluations on val",
             "DINOv3-7B vit_7b.*dinov3 55.9", "mIoU (compat)"),
    *_scores("neco", ("ade20k",), "Franca, issue 2", "labels of 100x100, the best epoch on val",
             "DINOv2-L/14 vit_large_patch14.*dinov2 41.8", "mIoU (compat)"),
    *(
        score
        for which, value in (("lowest", 29.2), ("highest", 35.2))
        for score in _scores("capi-knn", ("ade20k",), "CAPI", f"at 224, the {which} of its range",
                             f"CAPI-L/14 capi.*(large|l14) {value}")
    ),
    *_scores("mass", ("voc2012",), "Naseer et al. 2021",
             "images and masks at 512; weights with unrounded norms",
             "DeiT-T deit_tiny_patch16 32.2\nDeiT-S deit_small_patch16 29.2", "Jaccard (compat)"),
    *(
        PublishedScore(
            method, "imagenet", number, model, pattern, value / 100, "LocAt, table 3",
            "trained by DINO for 50 epochs",
        )
        for model, pattern, values in (
            ("DINO ViT-S", "^(?:timm/)?vit_small_patch16_224", (65.52, 61.69, 61.53, 59.30, 57.90)),
            ("DINO LocAtViT-S", "^locatvit_small$", (67.65, 63.96, 63.74, 61.19, 59.78)),
        )
        for (method, number), value in zip(
            (("dino", "top1"), *(("dino", f"top1 of {k}") for k in (10, 20, 100, 200))), values
        )
    ),
)  # fmt: skip


def published_beside(method: str, data: str, models: Sequence[str]) -> list[PublishedScore]:
    """Return the published scores of these models with this method on this data.

    >>> [x.value for x in published_beside("hummingbird", "voc2012", ["vit_tiny_patch16_224"])]
    [0.392]
    """
    return [
        score
        for score in PUBLISHED
        if (score.method, score.data) == (method, data)
        and any(re.search(score.pattern, name) for name in models)
    ]
