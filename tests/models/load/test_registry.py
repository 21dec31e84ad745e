"""create_model: our names, timm's names, and one clear sentence for what is neither."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch
from torch import nn

from nearsight.core import UserError
from nearsight.models.layers.grid import Grid
from nearsight.models.load.registry import create_model
from nearsight.models.zoo.own import full_name, model_names


def test_short_and_full_names_make_the_same_model():
    assert model_names()[:3] == ["compact_vit", "nano_vit", "mu_vit"]
    assert model_names()[3:6] == ["compact_locat", "nano_locat", "mu_locat"]
    assert [full_name("compact"), full_name("mu_vit"), full_name("other")] == [
        "compact_vit",
        "mu_vit",
        "other",
    ]
    torch.manual_seed(5)
    short = create_model("mu", 7).state_dict()
    torch.manual_seed(5)
    full = create_model("mu_vit", 7).state_dict()
    assert all(short[name].equal(full[name]) for name in full)


def test_the_patch_defaults_to_an_eighth_of_the_image():
    assert create_model("mu", 3, image_size=64).patch_embed.proj.kernel_size == (8, 8)
    assert create_model("mu", 3, image_size=(24, 40), patch_size=8).grid == Grid(3, 5)


def test_linear_maps_start_small_and_biases_at_zero():
    torch.manual_seed(0)
    model = create_model("compact", 100)
    maps = [x for x in model.modules() if isinstance(x, nn.Linear | nn.Conv2d)]
    assert len(maps) == 8 * 4 + 2
    for linear in maps:
        assert linear.weight.std().item() == pytest.approx(0.02, rel=0.05)
        assert not linear.bias.any()
    assert model.pos_embed.std().item() == pytest.approx(0.02, rel=0.05)


def test_any_name_of_timm_works_with_other_classes_and_image_sizes():
    model = create_model("vit_tiny_patch16_224", 7, image_size=32, patch_size=4, num_registers=2)
    assert model.patch_embed.grid_size == (8, 8)
    assert model.num_prefix_tokens == 3
    assert model.eval()(torch.randn(2, 3, 32, 32)).isfinite().all()
    assert model.head.out_features == 7
    whole = create_model("vit_tiny_patch16_224", 5)
    assert whole.patch_embed.grid_size == (14, 14)


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("compakt_vit", "compact_vit"),
        ("vit_tiny_patch16_225", "vit_tiny"),
        ("vit_tiny_patch16_224.augreg_in22k", "vit_tiny_patch16_224.augreg_in21k"),
    ],
)
def test_an_unknown_name_is_answered_with_the_nearest_ones(name: str, nearest: str):
    with pytest.raises(UserError, match=f"'{name}' is not .*did you mean .*{nearest}"):
        create_model(name, 3)


def test_unknown_options_and_sizes_are_refused():
    with pytest.raises(UserError, match=r"\bmu_vit\b.*\bdrop_rate\b"):
        create_model("mu", 3, drop_rate=0.1)
    with pytest.raises(UserError, match=r"\bvit_tiny_patch16_224\b.*'wings'"):
        create_model("vit_tiny_patch16_224", 3, wings=2)
    with pytest.raises(UserError, match="num_classes is 0"):
        create_model("mu", 0)
    with pytest.raises(UserError, match=r"\b32x32\b.*\b5\b"):
        create_model("mu", 3, patch_size=5)


@pytest.mark.processes
def test_timm_and_torchvision_import_in_a_fresh_process():
    script = (
        "from nearsight.models.compat import declare_missing_ops as declare\n"
        "declare(); import torchvision, timm; declare()\n"
        "from torchvision.transforms import v2; print(timm.is_model('vit_tiny_patch16_224'))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (done.returncode, done.stdout.strip()) == (0, "True"), done.stderr


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("timm/vit_tiny_patch16_224", {"qk_norms": True}),  # a TypeError of timm
        ("torchvision/vit_b_16", {"weights": "IMAGENET1K_V1", "num_classes": 7}),  # a ValueError
    ],
)
def test_what_a_library_refuses_is_an_error_of_the_user(name: str, options: dict[str, object]):
    library, _, own_name = name.partition("/")
    with pytest.raises(UserError, match=f"{library}'s {own_name} does not take these options"):
        create_model(name, **options)
