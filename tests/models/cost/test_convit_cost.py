"""What ConViT costs: a layer by hand, the paper's table 1, and what stands beside it."""

from __future__ import annotations

import pytest
import torch
from models.cost.test_flops import vit_cost
from rich.console import Console

from nearsight.models.cost.flops import model_cost
from nearsight.models.cost.model_tables import (
    cost_table,
    named_cost,
    names_text,
    tokens_text,
    units_text,
)
from nearsight.models.load.registry import create_model
from nearsight.models.zoo.names import ARCHITECTURES
from nearsight.models.zoo.own import ENDS

# ConViT's table 1 (arXiv 2103.10697): million parameters and G, at 224 pixels.
TABLE_1 = {
    "convit_tiny": (6, 1.0),
    "convit_tiny_plus": (10, 2.0),
    "convit_small": (27, 5.4),
    "convit_small_plus": (48, 10.0),
    "convit_base": (86, 17.0),
    "convit_base_plus": (152, 30.0),
    "deit_tiny": (6, 1.0),
    "deit_tiny_plus": (10, 2.0),
    "deit_small": (22, 4.3),
    "deit_small_plus": (48, 10.0),
    "deit_base": (86, 17.0),
    "deit_base_plus": (152, 30.0),
}
ROWS, COLS, WIDTH, MLP, PREFIX = 6, 10, 22, 46, 3
MU = {"image_size": (24, 40), "patch_size": 4, "num_registers": 2}


def layers(*prefixes: int) -> tuple[int, int]:
    """mu with as many layers, each of which sees that many prefix tokens; without a head."""
    patches = {"patches": ROWS * COLS, "width": WIDTH, "mlp": MLP, "patch_size": 4}
    start = vit_cost(prefix=0, depth=0, **patches)
    whole = [vit_cost(prefix=prefix, depth=1, **patches) for prefix in prefixes]
    macs, biases = (sum(counts) for counts in zip(*whole, strict=True))
    return macs - (len(whole) - 1) * start[0], biases - (len(whole) - 1) * start[1]


def test_gpsa_costs_a_layer_of_patches_and_two_products_by_position():
    cost = model_cost(create_model("mu_convit", 7, **MU), MU["image_size"])
    macs, biases = layers(0, PREFIX)
    along_rows = ROWS * ROWS * COLS * WIDTH  # each patch: the sum of a column of values
    along_cols = COLS * COLS * ROWS * WIDTH
    assert cost.macs == macs + along_rows + along_cols + WIDTH * 7
    assert cost.bias_additions == biases + 7
    assert (str(cost.grid), cost.num_prefix, cost.num_keys) == ("6x10", PREFIX, 60)


@pytest.mark.parametrize("mixing", ["gated", "summed"])
def test_without_numbers_the_count_is_the_same(mixing: str):
    with torch.device("meta"):
        without = create_model("mu_convit", 7, gpsa={"mixing": mixing}, **MU)
    counted = model_cost(create_model("mu_convit", 7, gpsa={"mixing": mixing}, **MU), (24, 40))
    assert model_cost(without, (24, 40)) == counted


def test_psa_costs_a_layer_of_patches_as_its_scores_are_added():
    cost = model_cost(create_model("mu_convit", 7, gpsa={"mixing": "summed"}, **MU), (24, 40))
    macs, biases = layers(0, PREFIX)
    assert (cost.macs, cost.bias_additions) == (macs + WIDTH * 7, biases + 7)
    assert (str(cost.grid), cost.num_prefix, cost.num_keys) == ("6x10", PREFIX, 60)


@pytest.mark.parametrize("name", TABLE_1)
@pytest.mark.slow
def test_table_1_has_the_parameters_before_the_head_and_operations_with_attention_or_without(name):
    millions, giga = TABLE_1[name]
    model_width = ARCHITECTURES[name].options["embed_dim"]
    found = named_cost(name)
    assert round((found.cost.num_parameters - 1001 * model_width) / 1e6) == millions
    attention = 12 * 2 * 197**2 * model_width / 1e9  # two products in every layer
    rounding = 0.05 if giga % 1 else 0.5
    all_products = found.cost.macs / 1e9
    assert all_products - attention - rounding < giga < all_products + rounding


@pytest.mark.parametrize(("mixing", "part"), [("gated", "GPSA"), ("summed", "PSA")])
@pytest.mark.slow
def test_a_convit_stands_beside_the_same_model_without_its_layers(mixing: str, part: str):
    found = named_cost("compact_convit", gpsa={"mixing": mixing}, num_classes=7)
    plain = named_cost("compact_vit", num_heads=4, num_classes=7)
    assert (found.part, found.plain) == (part, plain.cost)
    assert (plain.part, plain.plain) == (None, None)
    gates = 4 if part == "GPSA" else 0
    assert found.contents()[f"num_{part.lower()}_parameters"] == 6 * (4 * (3 + 1) + gates)
    console = Console(width=80)
    with console.capture() as capture:
        console.print(cost_table(found))
    assert f"without {part}" in capture.get()
    assert "Gaussian" not in capture.get()
    assert f"{part} is between patches" in units_text(found.part)


@pytest.mark.slow
def test_a_stock_model_with_a_part_by_option_stands_beside_itself_without():
    options = {"depth": 2, "embed_dim": 24, "num_heads": 3}
    plain = named_cost("vit_tiny_patch16_224", **options).cost
    for part, given in (("GPSA", {"gpsa": True}), ("LocAt", {"locat": {"refine": False}})):
        found = named_cost("vit_tiny_patch16_224", **options | given)
        assert (found.part, found.plain) == (part, plain)
        assert found.cost != plain


@pytest.mark.slow
def test_prefix_tokens_are_named_though_the_first_attention_is_without_them():
    found = named_cost("convit_tiny", image_size=(48, 80), depth=3, distilled=True)
    assert tokens_text(found.cost) == (
        "17 tokens: 2 prefix tokens and 3x5 patches, which at first attend to patches only"
    )
    assert found.plain is not None
    assert tokens_text(found.plain) == "17 tokens: 2 prefix tokens and 3x5 patches"


def test_every_end_of_our_names_is_explained():
    text = names_text()
    for end in ENDS:
        assert f"_{end} " in text
    assert "compact_convit has 4 heads" in text
    assert create_model("compact_convit").blocks[0].attn.num_heads == 4
