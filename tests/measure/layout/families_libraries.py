"""Families of torchvision and Hugging Face, and models of the user's own."""

from functools import partial

import torch
from measure.layout import reference_places as slow
from measure.layout.families_global import ROWS
from measure.layout.families_hierarchical import SHIFTED
from measure.layout.family_case import Case, layers
from torch import nn

from nearsight.models.compat import declare_missing_ops

SWIN = {
    "patch_size": [4, 4],
    "embed_dim": 12,
    "depths": [2, 2],
    "num_heads": [2, 3],
    "window_size": [3, 5],
    "num_classes": 5,
}
HF_TOY = {
    "hidden_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "intermediate_size": 29,
    "image_size": 64,
    "patch_size": 16,
}


class OwnModel(nn.Module):
    """A ViT as users write it: nothing in it says where its tokens sit."""

    def __init__(self):
        super().__init__()
        self.patches = nn.Conv2d(3, 24, 16, 16)
        self.token = nn.Parameter(torch.zeros(1, 1, 24))
        self.first = nn.MultiheadAttention(24, 3)
        self.second = nn.MultiheadAttention(24, 3, batch_first=True)

    def forward(self, images):
        x = self.patches(images).flatten(2).transpose(1, 2)  # [batch, patch, width]
        x = torch.cat([self.token.expand(len(x), -1, -1), x], dim=1)
        turned = x.transpose(0, 1)  # [token, batch, width]
        x = x + self.first(turned, turned, turned)[0].transpose(0, 1)
        return x + self.second(x, x, x, need_weights=False)[0]


def torchvision_vit():
    from torchvision.models.vision_transformer import VisionTransformer

    return VisionTransformer(
        image_size=48,
        patch_size=16,
        num_layers=2,
        num_heads=3,
        hidden_dim=24,
        mlp_dim=29,
        num_classes=5,
    )


def torchvision_swin():
    from torchvision.models.swin_transformer import SwinTransformer

    return SwinTransformer(**SWIN)


def torchvision_swin_v2():
    from torchvision.models import swin_transformer

    return swin_transformer.SwinTransformer(
        **SWIN,
        block=swin_transformer.SwinTransformerBlockV2,
        downsample_layer=swin_transformer.PatchMergingV2,
    )


def torchvision_swin_places():
    """Stages of 13x19 and 7x10 patches; shifted by half a window in every second layer."""
    places = {}
    for stage, (rows, cols) in enumerate([(13, 19), (7, 10)]):
        for block, shift in enumerate([(0, 0), (1, 2)]):
            places[f"features.{2 * stage + 1}.{block}.attn"] = slow.rectangles(
                rows, cols, (3, 5), shift, padded_first=True
            )
    return places


class Interpolating(nn.Module):
    """Hugging Face interpolates the positions of some models only when it is told to."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, images):
        return self.model(images, interpolate_pos_encoding=True)

    def set_attn_implementation(self, name):
        self.model.set_attn_implementation(name)


def hugging_face(kind, interpolating=False, **options):
    declare_missing_ops()
    import transformers

    config = getattr(transformers, f"{kind}Config")(**HF_TOY | options)
    model = getattr(transformers, f"{kind}Model")(config)
    return Interpolating(model) if interpolating else model


def hf_case(family, example, kind, num_prefix, name, sits, skipped=(), notes="", **options):
    return Case(
        family,
        f"hf/{example}",
        sits,
        build=partial(hugging_face, kind, **options),
        size=(48, 80),
        places=lambda: layers(name, slow.whole(3, 5, num_prefix)),
        skipped=skipped,
        notes=notes,
    )


CASES = [
    Case(
        "your own ViT",
        "measure_model(model, images)",
        "found by measuring; or as grid= and num_prefix= say",
        build=OwnModel,
        size=(48, 80),
        places=lambda: {"first": slow.whole(3, 5, 1), "second": slow.whole(3, 5, 1)},
        notes="nn.MultiheadAttention, scaled_dot_product_attention, softmax then matmul or einsum",
    ),
    Case(
        "ViT",
        "torchvision/vit_b_16",
        f"class token, {ROWS}",
        build=torchvision_vit,
        size=(48, 48),
        places=lambda: layers(
            "encoder.layers.encoder_layer_{}.self_attention", slow.whole(3, 3, 1)
        ),
        notes="nn.MultiheadAttention, its fast path included; torchvision takes square images only",
    ),
    Case(
        "Swin",
        "torchvision/swin_t",
        SHIFTED,
        build=torchvision_swin,
        size=(52, 76),
        places=torchvision_swin_places,
        notes="padded before the shift, unlike timm's",
        closed_form=True,
    ),
    Case(
        "SwinV2",
        "torchvision/swin_v2_t",
        SHIFTED,
        build=torchvision_swin_v2,
        size=(52, 76),
        places=torchvision_swin_places,
        notes="padded before the shift, unlike timm's",
    ),
    hf_case(
        "ViT",
        "google/vit-base-patch16-224",
        "ViT",
        1,
        "layers.{}.attention",
        f"class token, {ROWS}",
        image_size=(48, 80),
    ),
    hf_case(
        "DeiT",
        "facebook/deit-base-distilled-patch16-224",
        "DeiT",
        2,
        "layers.{}.attention",
        f"class and distillation token, {ROWS}",
        image_size=(48, 80),
    ),
    hf_case(
        "BEiT",
        "microsoft/beit-base-patch16-224",
        "Beit",
        1,
        "layers.{}.attention",
        f"class token, {ROWS}",
        use_relative_position_bias=True,
        image_size=(48, 80),
    ),
    hf_case(
        "DINOv2",
        "facebook/dinov2-small",
        "Dinov2",
        1,
        "encoder.layer.{}.attention",
        f"class token, {ROWS}",
    ),
    hf_case(
        "DINOv2 with registers",
        "facebook/dinov2-with-registers-small",
        "Dinov2WithRegisters",
        4,
        "encoder.layer.{}.attention",
        f"class token, registers, {ROWS}",
        num_register_tokens=3,
    ),
    hf_case(
        "DINOv3",
        "facebook/dinov3-vits16-pretrain-lvd1689m",
        "DINOv3ViT",
        5,
        "model.layer.{}.attention",
        f"class token, registers, {ROWS}",
        num_register_tokens=4,
    ),
    hf_case(
        "CLIP vision",
        "openai/clip-vit-base-patch32",
        "CLIPVision",
        1,
        "model.encoder.layers.{}.self_attn",
        f"class token, {ROWS}",
        interpolating=True,
    ),
    hf_case(
        "SigLIP vision",
        "google/siglip-base-patch16-224",
        "SiglipVision",
        0,
        "model.encoder.layers.{}.self_attn",
        ROWS,
        skipped=("model.head.attention",),
        interpolating=True,
        notes="its pooling by a learned query is skipped and listed",
    ),
]
