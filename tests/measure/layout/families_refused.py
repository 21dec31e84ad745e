"""What is refused, with words of the reason that the user gets."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from measure.layout.families_global import create_timm
from measure.layout.families_libraries import hugging_face
from torch import nn


@dataclass(frozen=True)
class Refusal:
    family: str
    example: str
    reason: str  # for the docs
    says: str  # a pattern of the message
    build: Callable[[], nn.Module]
    size: tuple[int, int] = (64, 96)

    def __str__(self):
        return self.family


NO_ATTENTION = "no softmax attention between patches"

REFUSED = [
    Refusal(
        "XCiT",
        "timm/xcit_nano_12_p16_224",
        "attends between channels, not between patches",
        r"can be measured \(blocks\.0\.attn: it attends between channels",
        partial(create_timm, "xcit_nano_12_p16_224", depth=1, embed_dim=24, num_heads=3),
    ),
    Refusal(
        "EdgeNeXt",
        "timm/edgenext_xx_small",
        "attends between channels, not between patches",
        r"can be measured \(.*xca: it attends between channels",
        partial(create_timm, "edgenext_xx_small"),
    ),
    Refusal(
        "PoolFormer",
        "timm/poolformer_s12",
        "pools; has no attention",
        NO_ATTENTION,
        partial(create_timm, "poolformer_s12"),
    ),
    Refusal(
        "EfficientViT (MIT)",
        "timm/efficientvit_b0",
        "linear attention: no softmax, no rows",
        NO_ATTENTION,
        partial(create_timm, "efficientvit_b0"),
    ),
    Refusal(
        "ResNet and other CNNs",
        "timm/resnet10t",
        "has no attention",
        NO_ATTENTION,
        partial(create_timm, "resnet10t"),
    ),
    Refusal(
        "ViT-MAE",
        "hf/facebook/vit-mae-base",
        "drops and shuffles patches at random",
        "shuffles patches at random",
        partial(hugging_face, "ViTMAE"),
        (64, 64),
    ),
]
