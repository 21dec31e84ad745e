"""A part that is declared here, in a test, is installed, counted and measured like the others."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from measure.toy_models import images
from torch import Tensor, nn

from nearsight.core import UserError
from nearsight.measure.folders.measure_contents import measurement
from nearsight.measure.profile import measure_model
from nearsight.measure.readouts import merge_collections, training_contents
from nearsight.models.cost.flops import model_cost
from nearsight.models.cost.model_tables import cost_table, named_cost, units_text
from nearsight.models.load.registry import create_model
from nearsight.models.parts import PARTS, CostCounts, CostHook, CostText, Part, ReadOut

SIZE, ROWS, COLS, PREFIX, WIDTH = (12, 20), 3, 5, 1, 22
MU = {"image_size": SIZE, "patch_size": 4}


@dataclass(frozen=True)
class ScaleSettings:
    """A factor for what every layer adds to the stream."""

    factor: float = 0.5


class Scale(nn.Module):
    """Multiplies all tokens by one learned number."""

    part_title = "Scale"

    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = nn.Parameter(torch.tensor(factor))

    def forward(self, x: Tensor) -> Tensor:
        return x * self.factor


class ScaledAttention(nn.Module):
    """Attention and the scale behind it."""

    def __init__(self, attention: nn.Module, factor: float) -> None:
        super().__init__()
        self.attention = attention
        self.scale = Scale(factor)

    def forward(self, x: Tensor) -> Tensor:
        return self.scale(self.attention(x))


def choose(choice: Any) -> ScaleSettings | None:
    if isinstance(choice, dict):
        return ScaleSettings(**choice)
    return ScaleSettings() if choice is True else choice or None


def install(model: Any, settings: ScaleSettings) -> nn.Module:
    for block in model.blocks[:1]:
        block.attn = ScaledAttention(block.attn, settings.factor)
    model.scale = f"scaled by {settings.factor}"
    return model


class ScaleCost(CostHook):
    """One multiplication for every number that comes out."""

    def leave(self, counts: CostCounts, args: tuple[Any, ...], output: Any) -> None:
        counts.kernel_operations += output.numel()


@dataclass(frozen=True)
class LayerScale:
    """The factor, and how many images saw it."""

    factor: float
    num_images: int


class ScaleReadOut(ReadOut[LayerScale]):
    """Reads the factor of every scaled layer, and counts images."""

    key = "scale"
    title = "Scale"
    added_by = "a test"
    while_training = True

    def __init__(self, model: nn.Module) -> None:
        super().__init__(model)
        self.found = [x for x in model.modules() if isinstance(x, Scale)]

    @property
    def is_present(self) -> bool:
        return bool(self.found)

    def add(self, layer: int, call: Any, layout: Any) -> None:
        modules = [place.module for place in call.path]
        scaled = next((x for x in modules if isinstance(x, ScaledAttention)), None)
        if scaled is not None:
            before = self.layers[layer].num_images if layer in self.layers else 0
            num = before + len(call.values)
            self.layers[layer] = LayerScale(scaled.scale.factor.item(), num)

    @classmethod
    def merge(cls, shares: Any) -> LayerScale:
        return LayerScale(shares[0].factor, sum(share.num_images for share in shares))

    @classmethod
    def contents(cls, layers: Mapping[int, LayerScale]) -> dict[str, Any]:
        return {"num_layers": len(layers)}


SCALE = Part(
    name="scale",
    titles=("Scale",),
    title_in=lambda model: "Scale" if any(isinstance(x, Scale) for x in model.modules()) else None,
    choose=choose,
    install=install,
    attention_in=lambda settings: "Scale",
    without={"scale": False},
    costs={Scale: ScaleCost},
    cost_rows={"kernel_operations": "scaling"},
    cost_text=CostText(flops=", and scaling", note="{title} has one number a layer."),
    read_out=ScaleReadOut,
)


@pytest.fixture(autouse=True)
def listed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The one line in the one table."""
    monkeypatch.setitem(PARTS, "scale", SCALE)


def test_its_name_is_an_option_of_every_model():
    model = create_model("mu", scale={"factor": 0.25}, **MU)
    assert model.blocks[0].attn.scale.factor.item() == 0.25
    assert model.scale == "scaled by 0.25"
    assert not hasattr(create_model("mu", scale=False, **MU), "scale")
    assert hasattr(create_model("vit_tiny_patch16_224", depth=2, scale=True), "scale")


def test_two_parts_that_change_attention_are_refused():
    with pytest.raises(UserError, match=r"\bScale and GPSA\b"):
        create_model("mu_convit", scale=True, **MU)


@pytest.mark.slow
def test_measuring_reads_it_out_and_measure_json_holds_it():
    model = create_model("mu", scale=True, **MU)
    profile = measure_model(model, images(*SIZE).split(2))
    num = len(images(*SIZE))
    assert profile.readouts == {"scale": {0: LayerScale(0.5, num)}}
    written = json.loads(json.dumps(measurement(profile)))
    assert written["scale"] == {"num_layers": 1}
    assert written["layers"][0]["scale"] == {"factor": 0.5, "num_images": num}
    assert "scale" not in written["layers"][1]


def test_a_model_without_it_has_no_entry():
    written = measurement(measure_model(create_model("mu", **MU), images(*SIZE)))
    assert "scale" not in written
    assert all("scale" not in layer for layer in written["layers"])


def test_looks_while_training_and_several_processes_keep_it():
    ours, theirs = ({"scale": {0: LayerScale(0.5, num)}} for num in (3, 4))
    joined = merge_collections([ours, theirs])
    assert joined == {"scale": {0: LayerScale(0.5, 7)}}
    expected = {"scale": [{"factor": 0.5, "num_images": 7}, None]}
    assert training_contents(joined, num_layers=2) == expected


def test_its_cost_is_counted_and_differences_from_the_plain_model():
    plain = model_cost(create_model("mu", **MU), SIZE)
    scaled = model_cost(create_model("mu", scale=True, **MU), SIZE)
    assert scaled.num_parameters == plain.num_parameters + 1
    assert scaled.kernel_operations == (ROWS * COLS + PREFIX) * WIDTH
    assert scaled.flops - plain.flops == scaled.kernel_operations
    found = named_cost("mu", SIZE, scale=True, patch_size=4)
    assert (found.part, found.cost, found.plain) == ("Scale", scaled, plain)
    assert found.contents()["num_scale_parameters"] == 1
    assert "scaling" in [*cost_table(found).columns[0].cells][-1]
    assert units_text("Scale").endswith("Scale has one number a layer.")
