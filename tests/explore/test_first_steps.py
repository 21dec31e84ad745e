"""What a newcomer tries first works, or says in a sentence what to do instead."""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from made_data import write_image
from torch import Tensor, nn
from torch.utils.data import TensorDataset

import nearsight as ns
from nearsight.core import UserError
from nearsight.models.load.weights import load_weights
from nearsight.protocol import override, preset

Answer = tuple[int, str, str]
SIDE = 32


class CutPatches(nn.Module):
    """Patches cut out by a reshape, without a convolution, as einops' Rearrange does."""

    def __init__(self, patch: int, width: int) -> None:
        super().__init__()
        self.patch, self.embed = patch, nn.Linear(3 * patch**2, width)

    def forward(self, x: Tensor) -> Tensor:
        images, colours, height, width = x.shape
        rows, cols = height // self.patch, width // self.patch
        x = x.reshape(images, colours, rows, self.patch, cols, self.patch)
        x = x.permute(0, 2, 4, 3, 5, 1)
        return self.embed(x.reshape(images, rows * cols, -1))


class PlainAttention(nn.Module):
    """vit-pytorch's: two products with a softmax between them."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads, self.qkv = heads, nn.Linear(width, 3 * width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        dots = torch.matmul(q, k.transpose(-1, -2)) * q.shape[-1] ** -0.5
        return torch.matmul(dots.softmax(-1), v).transpose(1, 2).flatten(2)


class LikeVitPytorch(nn.Module):
    """Patches by a reshape, a class token, attention by hand."""

    def __init__(self, has_class: bool, width: int = 22, heads: int = 2) -> None:
        super().__init__()
        self.patches = CutPatches(4, width)
        self.cls = nn.Parameter(torch.randn(1, 1, width)) if has_class else None
        self.attention = PlainAttention(width, heads)

    def forward(self, x: Tensor) -> Tensor:
        x = self.patches(x)
        if self.cls is not None:
            x = torch.cat([self.cls.expand(len(x), -1, -1), x], dim=1)
        return (x + self.attention(x)).mean(1)


@pytest.mark.parametrize("has_class", [True, False])
@pytest.mark.slow
def test_patches_that_are_cut_by_a_reshape_are_placed_without_arguments(has_class: bool) -> None:
    torch.manual_seed(5)
    model, images = LikeVitPytorch(has_class), torch.randn(3, 3, 12, 20)
    found = ns.measure_model(model, images)
    assert (found.grid, found.layers[0].num_prefix) == (ns.Grid(3, 5), int(has_class))
    tokens = model.patches(images)
    if model.cls is not None:
        tokens = torch.cat([model.cls.expand(3, -1, -1), tokens], dim=1)
    q, k, _ = model.attention.qkv(tokens).unflatten(-1, (3, 2, -1)).permute(2, 0, 3, 1, 4)
    weights = (torch.matmul(q, k.transpose(-1, -2)) * 11**-0.5).softmax(-1)
    expected = ns.mean_attention_distance(ns.patch_attention(weights, int(has_class)), (3, 5))
    np.testing.assert_allclose(found.mad.values[0], expected.detach(), rtol=1e-4)


def test_numpy_attention_tuples_and_gradients_are_taken() -> None:
    weights = torch.rand(2, 3, 6, 6).softmax(-1)
    by_torch = ns.mean_attention_distance(weights, ns.Grid(2, 3))
    by_numpy = ns.mean_attention_distance(weights.numpy(), (2, 3))
    assert torch.equal(by_torch, by_numpy)
    assert torch.equal(ns.attention_entropy(weights.numpy()), ns.attention_entropy(weights))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        logits = torch.rand(2, 3, 6, 6, requires_grad=True)
        ns.mean_attention_distance(logits.softmax(-1), (2, 3)).sum().backward()
    assert logits.grad is not None
    assert float(logits.grad.abs().sum()) > 0


def test_logits_are_told_from_weights() -> None:
    with pytest.raises(UserError, match=r"logits\.softmax"):
        ns.patch_attention(torch.randn(1, 2, 7, 7), num_prefix=1)


@pytest.mark.slow
def test_a_data_set_and_an_array_are_measured_like_a_tensor() -> None:
    model, images = ns.create_model("mu"), torch.randn(5, 3, SIDE, SIDE)
    expected = ns.measure_model(model, images)
    assert ns.measure_model(model, TensorDataset(images, torch.arange(5))) == expected
    assert ns.measure_model(model, images.numpy()) == expected


def test_maps_take_a_grid_and_are_drawn() -> None:
    model, image = LikeVitPytorch(True), torch.randn(3, 12, 20)
    maps = ns.attention_maps(model, image, [(1, 2)], grid=(3, 5), num_prefix=1)
    assert maps.of_patches[0].weights.shape == (3, 5)
    figure = maps.plot()
    assert len(figure.axes) >= 2
    with pytest.raises(UserError, match=r"\(4, 4\).*\[height, width, 3\]"):
        maps.plot(np.zeros((4, 4), np.uint8))


def test_a_profile_given_to_the_explorer_is_told_what_it_needs() -> None:
    profile = ns.measure_model(ns.create_model("mu"), torch.randn(2, 3, SIDE, SIDE))
    with pytest.raises(UserError, match=r"nearsight\.explore\(model, images\)"):
        ns.explore(profile)  # type: ignore[arg-type]


@pytest.mark.slow
def test_what_a_notebook_would_print_is_short() -> None:
    torch.manual_seed(7)
    model, images = ns.create_model("mu"), torch.randn(2, 3, SIDE, SIDE)
    profile, other = (ns.measure_model(ns.create_model("mu"), images) for _ in range(2))
    difference = ns.profile_difference(profile, other)
    shown = {
        "VisionTransformer": ns.explore(model, images),
        "2 images": ns.attention_maps(model, images),
        f"most local head {difference.most_local.value:+.3f}": difference,
    }
    for fact, value in shown.items():
        assert fact in repr(value)
        assert len(repr(value)) < 240


@pytest.mark.slow
def test_paths_may_be_text(tmp_path: Path) -> None:
    from safetensors.torch import save_file

    (tmp_path / "images").mkdir()
    for number in range(2):
        write_image(tmp_path / "images" / f"{number}.png", seed=number)
    save_file(ns.create_model("mu").state_dict(), tmp_path / "mu.safetensors")
    path = ns.measure_named(
        "mu", str(tmp_path / "images"), str(tmp_path / "out"),
        weights=str(tmp_path / "mu.safetensors"),
    )  # fmt: skip
    assert path.is_file()


@pytest.mark.parametrize("wrap", [
    lambda tensors: {"state_dict": {f"model.{k}": v for k, v in tensors.items()}},
    lambda tensors: {"state_dict": {f"model.module.{k}": v for k, v in tensors.items()}},
    lambda tensors: {"model": tensors, "args": argparse.Namespace(lr=1e-3)},
], ids=["lightning", "lightning-ddp", "deit"])  # fmt: skip
def test_checkpoints_of_common_training_scripts_are_read(
    wrap: Callable[[dict], dict], tmp_path: Path
) -> None:
    given = ns.create_model("mu")
    torch.save(wrap(given.state_dict()), tmp_path / "weights.pth")
    model = ns.create_model("mu")
    load_weights(model, tmp_path / "weights.pth")
    for name, tensor in given.state_dict().items():
        assert torch.equal(model.state_dict()[name], tensor)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("assignment", "told"),
    [("lr=1e-3", "did you mean optimizer.lr"), ("cutmix=true", "--set cutmix={}")],
)
def test_settings_that_miss_get_a_hint(assignment: str, told: str) -> None:
    with pytest.raises(UserError, match=told):
        override(preset("baseline"), [assignment])


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["measure", "google/vit-base-patch16-224", "--images", "."], "hf/google/vit-base"),
        (["measure", "hf/fodler", "--images", "."], "there is no folder fodler"),
        (["measure", "mu", "--random-init", "--images", "few", "--metrics", "entropie"],
         "did you mean entropy"),
        (["measure", "mu", "--random-init", "--images", "few", "--metrics", "mutual_information"],
         "nearsight.mutual_information computes the metric 'nmi'"),
        (["measure", "few/mu-0", "--images", "few"], "there is no folder few/mu-0"),
        (["train", "baseline", "--data", "/nope", "--out", "run"], "there is no folder /nope"),
        (["report", "run", "--out", "x.pdf"], "name must end in .html"),
    ],
)  # fmt: skip
def test_mistakes_get_the_hint_that_helps(
    nearsight: Callable[..., Answer], words: list[str], told: str
) -> None:
    Path("few").mkdir()
    for number in range(2):
        write_image(Path("few") / f"{number}.png", seed=number)
    code, _, err = nearsight(*words)
    assert code == 1
    assert told in err
    assert not Path("run").exists()
