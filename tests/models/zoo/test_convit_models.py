"""The published ConViT models and their baselines: weights, logits, options, the hub."""

from __future__ import annotations

from pathlib import Path

import pytest
import timm
import torch
from models.parity import filled, images_of, published
from models.parts.test_convit import SMALL, small, some_images
from safetensors.torch import save_file

from nearsight.core import UserError
from nearsight.models.load.named import named_model
from nearsight.models.load.registry import create_model, split_name
from nearsight.models.zoo.convit_models import ConViT


@pytest.mark.slow
def test_logits_are_the_published_ones():
    model = filled(create_model("convit_tiny"))
    facts = published("logits.json")["convit_tiny"]
    with torch.no_grad():
        logits = model(images_of())[:, :12]
    torch.testing.assert_close(logits, torch.tensor(facts["logits"]), atol=1e-4, rtol=0)
    assert sum(x.numel() for x in model.parameters()) == facts["params"]


@pytest.mark.parametrize("name", ["convit_tiny", "convit_small"])
@pytest.mark.slow
def test_weights_of_timm_load_strictly_and_give_its_logits(name: str):
    theirs = filled(timm.create_model(name, img_size=64))
    ours = create_model(name, image_size=64).eval()
    ours.load_state_dict(theirs.state_dict(), strict=True)
    images = images_of(64, 64)
    with torch.no_grad():
        torch.testing.assert_close(ours(images), theirs(images), atol=1e-5, rtol=0)
    theirs.load_state_dict(ours.state_dict(), strict=True)


def test_the_prefixed_name_is_timms_own_model():
    assert type(create_model("timm/convit_tiny")).__module__ == "timm.models.convit"
    assert isinstance(create_model("convit_tiny"), ConViT)
    assert split_name("timm/convit_tiny") == split_name("convit_tiny")


@pytest.mark.slow
def test_the_baselines_are_timms_deit():
    theirs = filled(timm.create_model("deit_tiny_patch16_224", img_size=64))
    ours = create_model("deit_tiny", image_size=64).eval()
    ours.load_state_dict(theirs.state_dict())
    with torch.no_grad():
        assert ours(images_of(64, 64)).equal(theirs(images_of(64, 64)))


def test_timms_words_for_layers_and_strength_are_taken():
    options = SMALL | {"image_size": (24, 40), "local_up_to_layer": 1, "locality_strength": 2.0}
    found = create_model("convit_tiny", 11, **options)
    same = create_model("convit_tiny", 11, (24, 40), gpsa={"layers": 1, "strength": 2.0}, **SMALL)
    assert found.gpsa == same.gpsa
    with pytest.raises(UserError, match=r"\bgpsa= .*\blocal_up_to_layer="):
        create_model("convit_tiny", 11, gpsa={"layers": 1}, **options)


def test_the_hub_keeps_the_options(tmp_path: Path):
    model = small(gpsa={"layers": 1, "strength": 2.0}, reg_tokens=2)
    model.save_pretrained(tmp_path)
    again = ConViT.from_pretrained(tmp_path).eval()
    assert again.gpsa == model.gpsa
    with torch.no_grad():
        assert again(some_images()).equal(model(some_images()))


@pytest.mark.slow
def test_pretrained_weights_are_those_timm_knows(tmp_path: Path):
    theirs = filled(timm.create_model("convit_tiny", img_size=64))
    save_file(theirs.state_dict(), tmp_path / "weights.safetensors")
    ours = create_model(
        "convit_tiny", image_size=64, pretrained=True,
        pretrained_cfg_overlay={"file": str(tmp_path / "weights.safetensors")},
    ).eval()  # fmt: skip
    with torch.no_grad():
        difference = ours(images_of(64, 64)) - theirs(images_of(64, 64))
    assert difference.abs().max() < 1e-5
    with pytest.raises(ValueError, match=r"\bconvit_tiny_plus\b.*\bload_state_dict\b"):
        create_model("convit_tiny_plus", pretrained=True)
    named = named_model("convit_tiny", tmp_path / "weights.safetensors", image_size=(64, 64))
    assert named.preprocessing.crop == (64, 64)
