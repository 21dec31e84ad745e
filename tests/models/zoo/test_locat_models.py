"""The published LocAt models: names, logits, resolutions, the hub, timm, misfitting weights."""

from __future__ import annotations

import copy
import json
import pickle
import subprocess
import sys
from dataclasses import replace
from typing import Any

import pytest
import timm
import torch
from models.parity import filled, images_of, published
from safetensors.torch import save_file

from nearsight.core import UserError
from nearsight.models.layers.grid import Grid
from nearsight.models.load.named import named_model
from nearsight.models.load.registry import create_model, model_for
from nearsight.models.load.weights import load_weights
from nearsight.models.zoo.locat_models import LocAtSwin, LocAtViT
from nearsight.models.zoo.names import ARCHITECTURES
from nearsight.protocol import GaussianSettings, LocatSettings, ModelSettings

SMALL: dict[str, Any] = {  # a ViT of two layers on a 3x5 grid
    "img_size": (24, 40),
    "patch_size": 8,
    "embed_dim": 21,
    "depth": 2,
    "num_heads": 3,
    "num_classes": 11,
}


def small(**options: Any) -> LocAtViT:
    torch.manual_seed(0)
    model = LocAtViT(**SMALL | options).eval()
    for name, parameter in model.named_parameters():
        if "gaug" in name or parameter.ndim == 2:
            torch.nn.init.normal_(parameter, std=0.6 if "gaug" in name else 0.2)
    return model


def with_options(key: str) -> tuple[str, dict[str, Any]]:
    """``locatvit_tiny, reg_tokens=4`` of names.json."""
    name, *options = key.split(", ")
    return name, {x.split("=")[0]: json.loads(x.split("=")[1].lower()) for x in options}


@pytest.mark.slow
def test_every_published_name_has_the_published_weights_in_their_order():
    checked = 0
    for key, weights in published("names.json").items():
        name, options = with_options(key)
        if name in ARCHITECTURES and "jumbo" not in name:  # which has its own test
            with torch.device("meta"):
                model = create_model(name, **options)
            ours = [(weight, list(value.shape)) for weight, value in model.state_dict().items()]
            assert ours == list(weights.items()), key
            checked += 1
    assert checked >= 8


@pytest.mark.slow
@pytest.mark.parametrize("name", ["locatvit_tiny", "locatswin_tiny"])
def test_logits_agree_with_the_authors_models(name: str):
    expected = published("logits.json")[name]
    model = filled(create_model(name))
    assert sum(parameter.numel() for parameter in model.parameters()) == expected["params"]
    with torch.no_grad():
        logits = model(images_of())
    torch.testing.assert_close(logits[:, :12], torch.tensor(expected["logits"]), atol=1e-4, rtol=0)


def test_no_weight_is_lost_when_a_part_is_switched_off():
    both, plain = small(), small(gaussian=False, refine=False)
    plain.load_state_dict({k: v for k, v in both.state_dict().items() if "gaug" not in k})
    stock = timm.create_model("vit_tiny_patch16_224", **SMALL).eval()
    stock.load_state_dict(plain.state_dict())
    images = torch.randn(2, 3, 24, 40)
    torch.testing.assert_close(plain(images), stock(images))
    refined = small(gaussian=False)
    refined.load_state_dict(plain.state_dict())
    assert (refined(images) - plain(images)).abs().max() > 1e-3


def test_a_dynamic_model_takes_other_grids_and_keeps_its_logits_at_the_first():
    fixed, dynamic = small(), small(dynamic_img_size=True)
    images = torch.randn(2, 3, 24, 40)
    torch.testing.assert_close(dynamic(images), fixed(images))
    wide, tall = dynamic(torch.ones(1, 3, 40, 72)), dynamic(torch.ones(1, 3, 72, 40))
    assert (wide - tall).abs().max() > 1e-6  # 5x9 and 9x5 patches: as many, elsewhere
    torch.testing.assert_close(dynamic(images), fixed(images))


def test_set_input_size_and_a_dynamic_size_scale_the_variance_alike():
    dynamic = small(dynamic_img_size=True, pos_embed="none")
    moved = small(pos_embed="none")
    moved.load_state_dict(dynamic.state_dict())
    moved.set_input_size((48, 80))
    fresh = small(pos_embed="none", img_size=(48, 80))  # this one starts there
    fresh.load_state_dict(dynamic.state_dict())
    images = torch.randn(2, 3, 48, 80)
    torch.testing.assert_close(moved(images), dynamic(images))
    assert (fresh(images) - dynamic(images)).abs().max() > 1e-4


def test_features_are_those_before_refinement():
    both, gaussian_only = small(), small(refine=False)
    gaussian_only.load_state_dict(both.state_dict())
    images = torch.randn(2, 3, 24, 40)
    torch.testing.assert_close(
        both.forward_features(images), gaussian_only.forward_features(images)
    )
    features = both.forward_features(images)
    torch.testing.assert_close(both.forward_head(features), both(images))


def test_swin_has_gaug_in_windows_of_any_size_and_refines_its_last_stage():
    options = {"img_size": 56, "embed_dim": 6, "depths": (2, 2), "num_heads": (2, 3)}
    torch.manual_seed(0)
    model = LocAtSwin(**options, window_size=7, num_classes=5).eval()
    sides = {name: x.grid.rows for name, x in model.named_modules() if name.endswith("gaug")}
    assert set(sides.values()) == {7}
    assert len(sides) == 4
    plain = LocAtSwin(**options, window_size=7, num_classes=5, gaussian=False).eval()
    with pytest.raises(
        UserError,
        match=r"\bGAug\b.*\blayers\.0\.\S+\.log_var\.weight\b.*\bgaussian=",
    ):
        plain.load_state_dict(model.state_dict())
    images = torch.randn(2, 3, 56, 56)
    assert model(images).isfinite().all()


def test_the_hub_gives_back_what_was_saved(tmp_path):
    model = small(gaussian={"kernel": "laplace"}, reg_tokens=2)
    model.save_pretrained(tmp_path)
    again = LocAtViT.from_pretrained(tmp_path).eval()
    images = torch.randn(2, 3, 24, 40)
    assert again(images).equal(model(images))
    assert again.blocks[0].attn.gaug.settings == GaussianSettings(kernel="laplace")
    config = json.loads((tmp_path / "config.json").read_text())
    assert config["gaussian"] == {"kernel": "laplace"}


def test_the_hub_keeps_what_was_changed_after_the_model_was_made(tmp_path):
    model = small(reg_tokens=2)
    model.reset_classifier(5)
    model.set_input_size((48, 80))
    model.save_pretrained(tmp_path)
    again = LocAtViT.from_pretrained(tmp_path).eval()
    images = torch.randn(2, 3, 48, 80)
    assert again(images).equal(model(images))
    assert again.blocks[0].attn.gaug.grid == Grid(3, 5)


def test_weights_of_one_size_are_used_at_another():
    dynamic = small(dynamic_img_size=True, pos_embed="none")
    model = small(img_size=(48, 80), trained_size=(24, 40), pos_embed="none")
    model.load_state_dict(dynamic.state_dict())
    images = torch.randn(2, 3, 48, 80)
    torch.testing.assert_close(model(images), dynamic(images))


@pytest.mark.parametrize(
    "options",
    [
        {"name": "locatvit_tiny", "num_heads": 5},
        {"name": "locatvit_tiny_rope_mixed", "num_heads": 5},
        {"name": "locatjumbo_tiny", "num_heads": 5},
        {"name": "locatswin_tiny", "num_heads": (3, 5, 12, 24)},
    ],
)
def test_heads_that_do_not_divide_the_width_are_refused(options: dict[str, Any]):
    with pytest.raises(UserError, match=r"\b192\b.*\b5 heads\b"):
        create_model(**options)


def test_copies_and_pickles_follow_their_own_images():
    model = small(dynamic_img_size=True)
    images, others = torch.randn(2, 3, 24, 40), torch.randn(2, 3, 40, 24)
    expected = model(images)
    for made in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        made(others)
        assert model(images).equal(expected)
        assert made(images).equal(expected)
        assert made.blocks[0].attn.tokens is not model.blocks[0].attn.tokens


@pytest.mark.parametrize(
    ("saved", "wanted", "sentence"),
    [
        ({}, {"gaussian": False}, r"weights are with GAug.*change gaussian="),
        ({"gaussian": False}, {}, r"weights are without GAug.*change gaussian="),
        ({"gaussian": {"strength": "one"}}, {}, "without GAug with a learned strength"),
        ({"reg_tokens": 3}, {}, r"\bregister tokens\b.*\breg_token\b.*\breg_tokens="),
        ({"depth": 3}, {}, "16 unknown"),
        ({"num_classes": 7}, {}, r"head\.weight has the shape \[7, 21\], .* \[11, 21\]"),
    ],
)
def test_weights_of_another_variant_are_refused_in_a_sentence(saved, wanted, sentence):
    weights = small(**saved).state_dict()
    with pytest.raises(UserError, match=sentence) as error:
        small(**wanted).load_state_dict(weights)
    assert "\n" not in str(error.value)


@pytest.mark.processes
def test_a_plain_import_registers_nothing_and_leaves_the_import_system_alone():
    script = (
        "import sys; before = list(sys.meta_path); import nearsight, nearsight.models;"
        "assert sys.meta_path == before; assert 'torch' not in sys.modules;"
        "from nearsight.models.compat import declare_missing_ops; declare_missing_ops();"
        "import timm; print(timm.is_model('locatvit_tiny'))"
    )
    run = [sys.executable, "-W", "error", "-c", script]
    assert subprocess.run(run, capture_output=True, text=True, check=True).stdout == "False\n"


@pytest.mark.processes
def test_names_are_timms_too_whichever_is_imported_first():
    script = (
        "import nearsight.timm;"
        "import timm; print(timm.create_model('locatvit_tiny', depth=1).locat);"
        "print(timm.is_model('jumbo_base'), timm.list_models('locat*'))"
    )
    run = [sys.executable, "-W", "error", "-c", script]
    said = subprocess.run(run, capture_output=True, text=True, check=True).stdout
    assert "GAug in 1 layers on a grid of 14x14, 195 parameters" in said
    assert "True ['locatjumbo_base', 'locatjumbo_small', 'locatjumbo_tiny'" in said


def test_options_reach_the_published_models_through_create_model():
    settings = LocatSettings(gaussian=GaussianSettings(isotropic=True), refine=False)
    model = create_model("locatvit_tiny", num_classes=3, locat=settings, depth=1)
    assert model.blocks[0].attn.gaug.log_var.weight.shape == (1, 64)
    assert model.attn_pool is None
    stock = create_model("vit_tiny_patch16_224", num_classes=3, locat=settings, depth=1)
    assert stock.locat.num_parameters == 65 + 65
    with pytest.raises(UserError, match=r"\blocatvit_small\b.*\bload_state_dict\b"):
        create_model("locatvit_small", pretrained=True)


@pytest.mark.parametrize("name", ["locatvit_tiny", "locatvit_base"])
def test_the_authors_weights_come_from_a_folder_in_the_hubs_layout(name, tmp_path, monkeypatch):
    """The hub's cache: models--OWNER--NAME/{refs/main, snapshots/COMMIT/model.safetensors}."""
    small = {"depth": 1, "embed_dim": 24, "num_heads": 3}
    published = create_model(name, **small)
    home, commit = tmp_path / f"models--sinahmr--{name}", "0" * 40
    (home / "refs").mkdir(parents=True)
    (home / "refs" / "main").write_text(commit)
    (home / "snapshots" / commit).mkdir(parents=True)
    save_file(published.state_dict(), home / "snapshots" / commit / "model.safetensors")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    loaded = create_model(name, pretrained=True, **small)
    for key, weight in published.state_dict().items():
        torch.testing.assert_close(loaded.state_dict()[key], weight, rtol=0, atol=0)


@pytest.mark.parametrize(
    ("name", "mean"),
    [
        ("locatvit_tiny", 0.5),
        ("locatvit_small", 0.5),
        ("locatjumbo_tiny", 0.5),
        ("jumbo_base", 0.5),
        ("locatvit_tiny_rope_mixed", 0.485),
        ("locatswin_tiny", 0.485),
    ],
)
@pytest.mark.slow
def test_images_are_prepared_as_the_published_weights_need_them(name, mean):
    from timm.data import resolve_model_data_config

    facts = resolve_model_data_config(
        create_model(name, **({} if "swin" in name else {"depth": 1}))
    )
    assert facts["mean"][0] == mean
    assert facts["std"][0] == (0.5 if mean == 0.5 else 0.229)


@pytest.mark.slow
def test_a_model_of_224_pixels_measured_at_another_size_keeps_the_grid_of_its_training(tmp_path):
    weights = tmp_path / "weights.safetensors"
    save_file(create_model("locatvit_tiny", depth=12).state_dict(), weights)
    model = named_model("locatvit_tiny", weights=weights, image_size=(96, 128)).model
    gaug = model.blocks[3].attn.gaug
    assert (str(gaug.grid), model.patch_embed.grid_size) == ("14x14", (6, 8))
    seen = []
    gaug.register_forward_hook(lambda module, args, bias: seen.append(args[3]))
    model(torch.zeros(1, 3, 96, 128))
    assert seen == [Grid(6, 8)]
    assert gaug.growth(seen[0]) == 6 / 14


def test_a_backbone_without_gaug_starts_a_training_with_it_and_nothing_else(tmp_path):
    weights = tmp_path / "weights.safetensors"
    plain = small(gaussian=False, refine=False)
    save_file(plain.state_dict(), weights)
    model = small(refine=False)
    (said,) = load_weights(model, weights, to_train=True)
    assert said == "The file has no GAug; its 8 weights start near strength 0."
    images = torch.randn(2, 3, 24, 40)
    torch.testing.assert_close(model(images), plain(images), atol=3e-3, rtol=0)
    assert not model(images).equal(plain(images))
    with pytest.raises(ValueError, match=r"missing blocks.0.attn.gaug.log_alpha.bias"):
        load_weights(small(refine=False), weights)


@pytest.mark.parametrize(
    ("choice", "sentence"),
    [
        ({"colour": 3}, r"'colour'.*\bkernel, source\b"),
        ({"kernel": "cubic"}, r"\bkernel\b.*'gaussian', 'laplace' or 'inverse'.*'cubic'"),
        ({"width": -1}, r"\bwidth\b.*\b0\.001\b.*-1\b"),
        ("laplace", r"\bgaussian is 'laplace'"),
    ],
)
def test_settings_that_gaug_does_not_know_are_refused_in_a_sentence(choice, sentence: str):
    with pytest.raises(ValueError, match=sentence) as error:
        create_model("mu", gaussian=choice)
    assert "\n" not in str(error.value)


def test_locat_is_given_as_plain_values_too():
    stock = create_model("mu", locat={"gaussian": {"isotropic": True}, "refine": False})
    assert stock.locat.num_parameters == 2 * (2 * 11 + 2)
    with pytest.raises(ValueError, match=r"'colour'.*\bgaussian and refine\b"):
        create_model("mu", locat={"colour": 3})


@pytest.mark.slow
def test_a_training_from_published_weights_at_another_size_keeps_their_grid():
    settings = ModelSettings(name="locatvit_tiny", image_size=96, weights="some.safetensors")
    model, size = model_for(settings, 5, (32, 32))
    assert (size, str(model.blocks[0].attn.gaug.grid)) == ((96, 96), "14x14")
    fresh, _ = model_for(replace(settings, weights=None), 5, (32, 32))
    assert str(fresh.blocks[0].attn.gaug.grid) == "6x6"
