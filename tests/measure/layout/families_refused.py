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
        r"layer blocks\.0\.attn \(XCA\).*between channels",
        partial(create_timm, "xcit_nano_12_p16_224", depth=1, embed_dim=24, num_heads=3),
    ),
    Refusal(
        "EdgeNeXt",
        "timm/edgenext_xx_small",
        "attends between channels, not between patches",
        r"\(CrossCovarianceAttn\).*between channels",
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
        "EfficientViT (MSRA)",
        "timm/efficientvit_m0",
        "heads attend one after another, in calls of their own",
        r"\(CascadedGroupAttention\).*heads attend one after another",
        partial(create_timm, "efficientvit_m0"),
        (224, 224),
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
    Refusal(
        "LeViT",
        "timm/levit_128s",
        "queries on a coarser grid than keys, in a way that is not in the table",
        "queries attend to 24 keys.*not known for this family",
        partial(
            create_timm,
            "levit_128s",
            img_size=(64, 96),
            embed_dim=(24, 24),
            key_dim=4,
            num_heads=(2, 2),
            depth=(1, 1),
        ),
    ),
    Refusal(
        "other models with windows (DaViT, GCViT, Twins, TinyViT, SAM, ...)",
        "timm/davit_tiny",
        "windows that are not in the table",
        r"\(WindowAttention\).*windows\?",
        partial(create_timm, "davit_tiny", depths=(1, 1), embed_dims=(12, 24), num_heads=(2, 3)),
    ),
]
