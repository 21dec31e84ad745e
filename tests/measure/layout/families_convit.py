"""ConViT: the published models and their baseline, ours, PSA, and add_gpsa on a stock model."""

from functools import partial

import torch
from measure.layout import reference_places as slow
from measure.layout.families_global import ROWS, create_timm
from measure.layout.families_global import TOY as OF_3_HEADS
from measure.layout.family_case import Case, layers
from measure.layout.own_weights import rows_by_offsets

from nearsight.models.load.registry import create_model
from nearsight.models.parts.gpsa.convit import add_gpsa

TOY = OF_3_HEADS | {"num_heads": 4}  # a kernel of 2x2
JOINS = "from the first layer without GPSA on"


def gates_apart(build):
    """A model whose heads have different gates; to begin with they are equal."""
    model = build()
    for module in model.modules():
        gates = getattr(module, "gating_param", None)
        if gates is not None:
            torch.nn.init.normal_(gates)
    return model


def convit_case(family, name, prefix, build, num_prefix, size=(48, 80), **facts):
    """A toy on a 3x5 grid with one layer of GPSA and one without."""
    return Case(
        family,
        name,
        f"{ROWS}; {prefix} {JOINS}",
        build=partial(gates_apart, build),
        size=size,
        places=lambda: {
            "blocks.0.attn": slow.whole(3, 5),
            "blocks.1.attn": slow.whole(3, 5, num_prefix),
        },
        weights=rows_by_offsets,
        **facts,
    )


CASES = [
    convit_case(
        "compact ConViT, nano, mu",
        "compact_convit",
        "class token, registers",
        partial(create_model, "mu_convit", 5, image_size=(12, 20), patch_size=4, num_registers=2),
        num_prefix=3,
        size=(12, 20),
        notes="content and position mixed as the gates say",
    ),
    convit_case(
        "ConViT",
        "convit_tiny",
        "class token",
        partial(create_model, "convit_tiny", image_size=(48, 80), **TOY),
        num_prefix=1,
        notes="any grid, unlike timm's; attention is never made whole",
        closed_form=True,
    ),
    convit_case(
        "ConViT, other image sizes",
        "convit_small",
        "class token",
        partial(create_model, "convit_small", image_size=(96, 64), dynamic_img_size=True, **TOY),
        num_prefix=1,
        notes="built for 96x64, measured at 48x80: position is by offset, in patches",
        closed_form=True,
    ),
    convit_case(
        "ConViT, distilled",
        "convit_base",
        "class and distillation token",
        partial(create_model, "convit_base", image_size=(48, 80), distilled=True, **TOY),
        num_prefix=2,
        notes="distilled=True",
    ),
    convit_case(
        "ConViT with PSA",
        "convit_tiny_plus",
        "class token",
        partial(
            create_model, "convit_tiny_plus", image_size=(48, 80), gpsa={"mixing": "summed"}, **TOY
        ),
        num_prefix=1,
        notes='gpsa={"mixing": "summed"}: one softmax over the sum of scores',
        closed_form=True,
    ),
    convit_case(
        "GPSA added to a model of timm",
        "add_gpsa(timm.create_model(...))",
        "prefix tokens",
        lambda: add_gpsa(
            create_timm("vit_medium_patch16_reg4_gap_256", img_size=(48, 80), **TOY), layers=1
        ),
        num_prefix=4,
        notes="here with 4 registers and average pooling",
    ),
    Case(
        "DeiT",
        "deit_tiny",
        f"class token, {ROWS}",
        build=partial(create_model, "deit_tiny", image_size=(48, 80), **TOY),
        size=(48, 80),
        places=lambda: layers("blocks.{}.attn", slow.whole(3, 5, 1)),
        notes="distilled=True: a distillation token after it",
    ),
]
