"""Models with LocAt: the published ones, ours, and add_locat on a stock model."""

from functools import partial

import torch
from measure.layout import reference_places as slow
from measure.layout.families_global import ROWS, TOY, create_timm
from measure.layout.families_hierarchical import SHIFTED, SWIN, SWIN_PADDED, swin
from measure.layout.family_case import Case, layers
from measure.layout.own_weights import softmax_rows

from nearsight.models.load.registry import create_model
from nearsight.models.parts.locat.locat import add_locat

REFINED = "PRR is skipped and listed"


def before_refinement(model, images):
    """The rows of the layers: PRR, the last attention, is none."""
    return softmax_rows(model, images)[:-1]


def vit_case(family, name, sits, num_prefix, notes="", size=(48, 80), **options):
    """A toy of a published model on a 3x5 grid."""
    built_for = options.pop("img_size", size)
    more = {key: options.pop(key) for key in ("precision", "closed_form") if key in options}
    return Case(
        family,
        name,
        f"{sits}, {ROWS}",
        build=partial(create_model, name, image_size=built_for, **TOY | options),
        size=size,
        places=lambda: layers("blocks.{}.attn", slow.whole(3, 5, num_prefix)),
        skipped=("attn_pool",),
        notes="; ".join(filter(None, (notes, REFINED))),
        weights=before_refinement,
        **more,
    )


CASES = [
    Case(
        "compact ViT, nano, mu with LocAt",
        "compact_locat",
        f"class token, registers, {ROWS}",
        build=partial(
            create_model, "mu_locat", 5, image_size=(12, 20), patch_size=4, num_registers=2
        ),
        size=(12, 20),
        places=lambda: layers("blocks.{}.attn", slow.whole(3, 5, 3)),
        skipped=("attn_pool",),
        notes=REFINED,
        weights=before_refinement,
    ),
    vit_case("LocAt ViT", "locatvit_tiny", "class token", 1, closed_form=True),
    vit_case(
        "LocAt ViT, other image sizes",
        "locatvit_small",
        "class token",
        1,
        "the variance follows the grid",
        img_size=(96, 64),
        dynamic_img_size=True,
    ),
    vit_case(
        "LocAt ViT, Laplace kernel",
        "locatvit_base",
        "class token",
        1,
        'gaussian={"kernel": "laplace"}',
        gaussian={"kernel": "laplace"},
    ),
    vit_case(
        "LocAt RegViT", "locatvit_tiny", "class token, 4 registers", 5, "reg_tokens=4", reg_tokens=4
    ),
    vit_case(
        "LocAt RoPE ViT, mixed",
        "locatvit_tiny_rope_mixed",
        "class token",
        1,
        precision=torch.float32,
    ),
    Case(
        "LocAt Swin",
        "locatswin_tiny",
        SHIFTED,
        build=partial(
            create_model, "locatswin_tiny", image_size=(52, 76), window_size=(3, 5), **SWIN
        ),
        size=(52, 76),
        places=lambda: swin(13, 19, (3, 5)) | swin(7, 10, (3, 5), stage=1),
        skipped=("head.global_pool",),
        notes=f"{SWIN_PADDED}; {REFINED}",
        weights=before_refinement,
        closed_form=True,
    ),
    Case(
        "Jumbo ViT",
        "jumbo_tiny",
        f"6 class tokens, {ROWS}",
        build=partial(create_model, "jumbo_tiny", image_size=(48, 80), **TOY),
        size=(48, 80),
        places=lambda: layers("blocks.{}.attn", slow.whole(3, 5, 6)),
    ),
    vit_case("LocAt Jumbo ViT", "locatjumbo_tiny", "6 class tokens", 6),
    Case(
        "LocAt added to a model of timm",
        "add_locat(timm.create_model(...))",
        "as the model without it",
        build=lambda: add_locat(
            create_timm("vit_medium_patch16_reg4_gap_256", img_size=(48, 80), **TOY)
        ),
        size=(48, 80),
        places=lambda: layers("blocks.{}.attn", slow.whole(3, 5, 4)),
        skipped=("attn_pool",),
        notes=f"here with 4 registers and average pooling; {REFINED}",
        weights=before_refinement,
    ),
]
