"""What a model costs: hand-solved counts, the paper's table 1, and the traps of counting."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from nearsight.models.cost.flops import Cost, model_cost
from nearsight.models.cost.model_tables import NamedCost, named_cost
from nearsight.models.load.registry import create_model

# LocAt's table 1 (arXiv 2603.04892): G without and with LocAt, at 224 pixels. The other three rows
# of Base models are in docs/models.md: they take long and differ from these in size only.
TABLE_1 = [
    ("locatvit_tiny", {}, 1.26, 1.27),
    ("locatswin_tiny", {}, 4.50, 4.51),
    ("locatvit_tiny", {"reg_tokens": 4}, 1.29, 1.30),  # RegViT
    ("locatvit_tiny_rope_mixed", {}, 1.26, 1.27),
    ("locatjumbo_tiny", {}, 1.40, 1.42),
    ("locatvit_base", {}, 17.58, 17.64),
    ("locatjumbo_base", {}, 19.74, 19.81),
]


@cache
def counted(name: str, reg_tokens: int = 0) -> NamedCost:
    """A published model, counted once for all tests."""
    return named_cost(name, **({"reg_tokens": reg_tokens} if reg_tokens else {}))


def vit_cost(patches: int, prefix: int, width: int, mlp: int, depth: int, patch_size: int):
    """Multiply-accumulates and bias additions of a ViT without a head, by hand."""
    tokens = patches + prefix
    macs = patches * 3 * patch_size**2 * width
    biases = patches * width
    for _ in range(depth):
        for given, made in ((width, 3 * width), (width, width), (width, mlp), (mlp, width)):
            macs += tokens * given * made
            biases += tokens * made
        macs += 2 * tokens * tokens * width  # queries by keys, attention by values
    return macs, biases


def test_a_vit_costs_what_its_layers_cost_by_hand():
    model = create_model("mu", 7, image_size=(24, 40), patch_size=4, num_registers=2)
    cost = model_cost(model, (24, 40))
    macs, biases = vit_cost(patches=60, prefix=3, width=22, mlp=46, depth=2, patch_size=4)
    assert (cost.macs, cost.bias_additions) == (macs + 22 * 7, biases + 7)
    assert cost.paper_unit == macs + biases + 23 * 7
    assert cost.flops == 2 * (macs + 22 * 7) + biases + 7
    assert (str(cost.grid), cost.num_prefix, cost.num_keys) == ("6x10", 3, 63)


@pytest.mark.parametrize(("name", "options", "plain", "with_locat"), TABLE_1)
@pytest.mark.slow
def test_the_papers_unit_is_that_of_table_1(
    name: str, options: dict[str, Any], plain: float, with_locat: float
):
    found = counted(name, **options)
    assert found.plain is not None
    assert found.plain.paper_unit / 1e9 == pytest.approx(plain, abs=0.01)
    assert found.cost.paper_unit / 1e9 == pytest.approx(with_locat, abs=0.01)
    if name.startswith("locatvit"):
        assert found.contents()["num_locat_parameters"] == 2340


@pytest.mark.parametrize(
    ("stock", "ours"),
    [
        ("vit_tiny_patch16_224", "locatvit_tiny"),
        ("torchvision/vit_b_16", "locatvit_base"),
        ("torchvision/swin_t", "locatswin_tiny"),
    ],
)
@pytest.mark.slow
def test_without_locat_our_names_cost_what_stock_models_cost(stock: str, ours: str):
    found = named_cost(stock)
    assert found.plain is None
    assert found.cost == counted(ours).plain


def test_refinement_counts_in_full_in_the_papers_unit_and_by_its_row_in_flops():
    plain, refined = named_cost("mu_vit").cost, named_cost("mu_prr").cost
    assert refined.paper_unit - plain.paper_unit == 2 * 65 * 65 * 22
    assert refined.flops - plain.flops == 2 * 2 * 1 * 65 * 22
    assert refined.kernel_operations == 0


@pytest.mark.slow
def test_refinement_that_is_averaged_skips_nothing():
    found = named_cost("locatswin_tiny", gaussian=False, depths=[1, 1, 1, 1])
    assert found.plain is not None
    assert found.cost.skipped_macs == 0
    assert found.cost.macs - found.plain.macs == 2 * 49 * 49 * 768


def test_the_kernel_costs_two_operations_per_pair_of_patches_and_few_per_patch():
    found = named_cost("mu_gaug", image_size=(24, 40), patch_size=4)
    heads, layers, width, rows, cols = 2, 2, 11, 6, 10
    patches = heads * layers * rows * cols  # with each head's and layer's own
    pairs = patches * rows * cols
    few = 20 + 4 * (rows + cols)
    assert 2 * pairs < found.cost.kernel_operations < 2 * pairs + few * patches
    assert found.plain is not None
    assert found.cost.macs - found.plain.macs == 3 * width * patches
    assert found.cost.bias_additions - found.plain.bias_additions == 3 * patches
    assert found.cost.flops - found.plain.flops == (
        6 * width * patches + 3 * patches + found.cost.kernel_operations
    )


@pytest.mark.slow
def test_a_kernel_without_factors_costs_more():
    fast, slow = (
        named_cost("mu_gaug", gaussian={"kernel": kernel}).cost
        for kernel in ("gaussian", "laplace")
    )
    pairs = 2 * 2 * 64 * 64  # of every layer and head
    assert slow.kernel_operations > 5 * pairs > fast.kernel_operations


class OnChannels(nn.Module):
    """A linear map of every pixel's colours, from memory in another order or in order."""

    def __init__(self, contiguous: bool) -> None:
        super().__init__()
        self.contiguous = contiguous
        self.linear = nn.Linear(3, 5)

    def forward(self, x: Tensor) -> Tensor:
        pixels = x.permute(0, 2, 3, 1)  # [batch, h, w, 3]
        return self.linear(pixels.contiguous() if self.contiguous else pixels)


@pytest.mark.parametrize("contiguous", [True, False])
def test_a_bias_is_counted_once_however_torch_adds_it(contiguous: bool):
    cost = model_cost(OnChannels(contiguous), (7, 11))
    assert (cost.macs, cost.bias_additions) == (77 * 3 * 5, 77 * 5)


def test_what_is_added_to_a_product_is_a_bias_only_if_it_is_a_vector():
    class Residual(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            image = x[0, 0]
            return image + image @ image.T @ image

    cost = model_cost(Residual(), (7, 11))
    assert (cost.macs, cost.bias_additions) == (2 * 7 * 7 * 11, 0)


@pytest.mark.parametrize(
    ("layer", "macs", "biases"),
    [
        (nn.Conv2d(3, 6, (2, 5), groups=3), 6 * 7 * 6 * 10, 6 * 6 * 7),
        (nn.Conv2d(3, 5, 3, padding=1, bias=False), 7 * 11 * 5 * 27, 0),
        (nn.ConvTranspose2d(3, 5, 2, stride=2), 7 * 11 * 3 * 5 * 4, 14 * 22 * 5),
    ],
    ids=["grouped", "padded", "transposed"],
)
def test_convolutions_cost_what_they_cost_by_hand(layer: nn.Module, macs: int, biases: int):
    cost = model_cost(layer, (7, 11))
    assert (cost.macs, cost.bias_additions) == (macs, biases)
    assert cost.grid is None


def test_torchs_own_attention_is_counted_too_although_it_has_a_shortcut():
    class Encoder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.TransformerEncoderLayer(11, 1, 13, batch_first=True)

        def forward(self, x: Tensor) -> Tensor:
            return self.layer(x[:, 0])

    macs, biases = vit_cost(patches=0, prefix=7, width=11, mlp=13, depth=1, patch_size=1)
    cost = model_cost(Encoder(), (7, 11))
    assert (cost.macs, cost.bias_additions) == (macs, biases)
    assert torch.backends.mha.get_fastpath_enabled()


def test_with_numbers_and_without_them_the_count_is_the_same():
    with torch.device("meta"):
        without = create_model("mu_locat", 7)
    assert model_cost(without, (32, 32)) == model_cost(create_model("mu_locat", 7), (32, 32))


def test_counting_leaves_a_model_as_it_was():
    model = create_model("mu_locat", 7)
    model.blocks[1].eval()
    modes = [module.training for module in model.modules()]
    images = torch.randn(2, 3, 32, 32)
    before = model(images)
    model_cost(model, (32, 32))
    assert [module.training for module in model.modules()] == modes
    assert not any(x._forward_hooks or x._forward_pre_hooks for x in model.modules())
    assert torch.equal(model(images), before)
    assert before.requires_grad


def test_a_model_that_reads_its_numbers_is_counted_with_real_ones(monkeypatch: pytest.MonkeyPatch):
    class Reads(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(11, 5, bias=False)

        def forward(self, x: Tensor) -> Tensor:
            return self.linear(x) if x.sum().item() == 0 else x

    monkeypatch.setattr("nearsight.models.cost.model_tables.build_model", lambda *_, **__: Reads())
    assert named_cost("mu", image_size=(7, 11)).cost.macs == 3 * 7 * 11 * 5


@pytest.mark.slow
def test_a_model_without_attention_has_its_counts():
    cost = named_cost("resnet50").cost
    assert cost.paper_unit / 1e9 == pytest.approx(4.09, abs=0.01)
    assert (cost.grid, cost.num_prefix, cost.num_queries, cost.num_keys) == (None, 0, 0, 0)


def test_another_image_size_gives_another_grid():
    cost = named_cost("vit_tiny_patch16_224", image_size=(160, 288), depth=1).cost
    assert (str(cost.grid), cost.num_prefix, cost.num_keys) == ("10x18", 1, 181)


@pytest.mark.slow
def test_a_grid_is_not_claimed_where_queries_and_keys_differ():
    cost = named_cost("pvt_v2_b0", depths=[1, 1, 1, 1]).cost  # keys are pooled
    assert (cost.grid, cost.num_queries, cost.num_keys) == (None, 56 * 56, 7 * 7)


@pytest.mark.slow
def test_patches_in_windows_see_those_of_their_window():
    windows = counted("locatswin_tiny").cost
    assert (str(windows.grid), windows.num_prefix, windows.num_keys) == ("56x56", 0, 49)


def test_a_model_of_transformers_is_counted(tmp_path: Path):
    transformers = pytest.importorskip("transformers", reason="needs the extra hf")
    sizes = {"hidden_size": 22, "num_hidden_layers": 2, "num_attention_heads": 2}
    config = transformers.ViTConfig(
        **sizes, intermediate_size=31, image_size=48, patch_size=16, architectures=["ViTModel"]
    )
    config.save_pretrained(tmp_path)
    cost: Cost = named_cost(f"hf/{tmp_path}").cost
    macs, biases = vit_cost(patches=9, prefix=1, width=22, mlp=31, depth=2, patch_size=16)
    assert (cost.macs, cost.bias_additions) == (macs + 22 * 22, biases + 22)  # with the pooler
    assert (str(cost.grid), cost.num_prefix) == ("3x3", 1)
