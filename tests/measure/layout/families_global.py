"""Families of timm, and ours, whose tokens all attend to each other."""

from functools import partial

import torch
from measure.layout import reference_places as slow
from measure.layout.family_case import Case, layers
from measure.layout.own_weights import dropout_inputs

from nearsight.models.load.registry import create_model

TOY = {"depth": 2, "embed_dim": 24, "num_heads": 3, "num_classes": 5}
ROWS = "patches row by row"


def timm_case(family, name, sits, num_prefix=0, size=(48, 80), notes="", **options):
    """A toy of a ViT-like model of timm on a 3x5 grid."""
    options = TOY | {"img_size": size} | options
    more = {key: options.pop(key) for key in ("skipped", "precision") if key in options}
    return Case(
        family,
        f"timm/{name}",
        sits,
        build=partial(create_timm, name, **options),
        size=size,
        places=lambda: layers("blocks.{}.attn", slow.whole(3, 5, num_prefix)),
        notes=notes,
        **more,
    )


def create_timm(name, **options):
    from nearsight.models.compat import declare_missing_ops

    declare_missing_ops()
    import timm

    return timm.create_model(name, **options)


CASES = [
    Case(
        "compact ViT, nano, mu",
        "compact_vit",
        f"class token, registers, {ROWS}",
        build=lambda: create_model(
            "mu", num_classes=5, image_size=(12, 20), patch_size=4, num_registers=2
        ),
        size=(12, 20),
        places=lambda: layers("blocks.{}.attn", slow.whole(3, 5, 3)),
        notes="the model says its grid and prefix itself",
    ),
    timm_case("ViT", "vit_tiny_patch16_224", f"class token, {ROWS}", 1),
    timm_case(
        "ViT, other image sizes",
        "vit_small_patch16_224",
        f"class token, {ROWS}",
        1,
        img_size=(96, 64),
        dynamic_img_size=True,
        notes="the grid is that of the images it got (here built for 96x64, measured at 48x80)",
    ),
    timm_case(
        "DeiT",
        "deit_tiny_distilled_patch16_224",
        f"class and distillation token, {ROWS}",
        2,
        notes="without distillation: class token only",
    ),
    timm_case("DeiT III", "deit3_small_patch16_224", f"class token, {ROWS}", 1),
    timm_case(
        "ViT with registers",
        "vit_medium_patch16_reg4_gap_256",
        f"4 registers, {ROWS}",
        4,
        notes="any number of prefix tokens",
    ),
    timm_case(
        "DINOv2",
        "vit_small_patch14_reg4_dinov2",
        f"class token, 4 registers, {ROWS}",
        5,
        size=(42, 70),
        notes="without registers: class token only",
    ),
    timm_case(
        "DINOv3", "vit_small_patch16_dinov3", f"class token, 4 registers, {ROWS}", 5, notes="RoPE"
    ),
    timm_case("BEiT", "beit_base_patch16_224", f"class token, {ROWS}", 1, notes="relative bias"),
    timm_case(
        "BEiTv2", "beitv2_base_patch16_224", f"class token, {ROWS}", 1, notes="relative bias"
    ),
    timm_case(
        "EVA-02", "eva02_tiny_patch14_224", f"class token, {ROWS}", 1, size=(42, 70), notes="RoPE"
    ),
    timm_case("RoPE ViT, axial", "vit_small_patch16_rope_224", f"class token, {ROWS}", 1),
    timm_case(
        "RoPE ViT, mixed",
        "vit_small_patch16_rope_mixed_224",
        f"class token, {ROWS}",
        1,
        precision=torch.float32,
    ),
    timm_case(
        "SigLIP",
        "vit_base_patch16_siglip_224",
        ROWS,
        0,
        skipped=("attn_pool",),
        notes="its pooling by a learned query is skipped and listed",
    ),
    timm_case("FlexiViT", "flexivit_small", f"class token, {ROWS}", 1, size=(48, 80)),
    Case(
        "NaFlexViT",
        "timm/naflexvit_base_patch16_gap",
        f"registers, {ROWS}",
        build=partial(create_timm, "naflexvit_base_patch16_gap", **TOY),
        size=(48, 80),
        places=lambda: layers("blocks.{}.attn", slow.whole(3, 5, 4)),
        notes="given images; patches cut beforehand have a grid per image and are refused",
    ),
    Case(
        "SHViT",
        "timm/shvit_s1",
        f"{ROWS} of the map that the layer gets",
        build=partial(
            create_timm,
            "shvit_s1",
            embed_dim=(16, 24, 32),
            partial_dim=(8, 12, 16),
            depth=(1, 1, 2),
            num_classes=5,
        ),
        size=(192, 320),
        places=lambda: {
            "stages.1.blocks.0.mixer.m": slow.whole(6, 10),
            "stages.2.blocks.0.mixer.m": slow.whole(3, 5),
            "stages.2.blocks.1.mixer.m": slow.whole(3, 5),
        },
        notes="one head, values times weights; layers without attention are convolutions",
    ),
    Case(
        "CaiT",
        "timm/cait_xxs24_224",
        ROWS,
        build=partial(create_timm, "cait_xxs24_224", img_size=(48, 80), **TOY),
        size=(48, 80),
        places=lambda: layers("blocks.{}.attn", slow.whole(3, 5)),
        skipped=("blocks_token_only.0.attn", "blocks_token_only.1.attn"),
        notes="softmax rows before the mixing of heads; class-attention layers are skipped",
    ),
    Case(
        "ConViT",
        "timm/convit_tiny",
        f"{ROWS}; a class token from the first layer without GPSA on",
        build=partial(
            create_timm,
            "convit_tiny",
            img_size=(32, 128),
            depth=2,
            embed_dim=6,
            num_heads=4,
            local_up_to_layer=1,
        ),
        size=(32, 128),
        places=lambda: {
            "blocks.0.attn": slow.whole(2, 8),
            "blocks.1.attn": slow.whole(2, 8, num_prefix=1),
        },
        weights=dropout_inputs,
        notes="gated rows as the layer uses them; timm's positions need a square number of patches",
    ),
]
