"""Models by name: their weights, their own preprocessing, and one sentence for every mistake."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from nearsight.core import UserError
from nearsight.models.load.named import named_model
from nearsight.models.load.registry import check_name, create_model, split_name

VIT = "vit_tiny_patch16_224"


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """No name can be looked up, no proxy is set and no cache holds anything."""

    def unknown(*_: object, **__: object):
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    monkeypatch.setattr("nearsight.models.load.hub.getproxies", dict)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "torch"))


def test_a_prefix_says_where_a_name_is_from():
    assert split_name("mu") == ("nearsight", "mu_vit")
    assert split_name(VIT) == split_name(f"timm/{VIT}") == ("timm", VIT)
    assert split_name("torchvision/vit_b_16") == ("torchvision", "vit_b_16")
    assert split_name("hf/facebook/dinov2-small") == ("hf", "facebook/dinov2-small")
    assert split_name("hf/./a/folder") == ("hf", "./a/folder")
    assert split_name("hf/") == ("timm", "hf/")


@pytest.mark.slow
def test_create_model_takes_prefixed_names():
    torch.manual_seed(3)
    one = create_model(f"timm/{VIT}", 7, image_size=(48, 32)).state_dict()
    torch.manual_seed(3)
    two = create_model(VIT, 7, image_size=(48, 32)).state_dict()
    assert all(one[name].equal(two[name]) for name in two)
    model = create_model("torchvision/vit_b_32", 7, image_size=64)
    assert type(model).__module__ == "torchvision.models.vision_transformer"
    assert model.eval()(torch.zeros(1, 3, 64, 64)).shape == (1, 7)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("vit_tiny_patch16_225", "'vit_tiny_patch16_225'.*did you mean vit_tiny_patch16_224"),
        ("timm/deit_tyni_patch16_224", "did you mean deit_tiny_patch16_224"),
        ("torchvision/vit_b16", "'vit_b16' is not .*torchvision; did you mean vit_b_16"),
        ("nanoo_vit", "did you mean nano_vit"),
    ],
)
def test_an_unknown_name_is_answered_with_the_nearest_ones_before_all_else(name: str, words: str):
    for make in (named_model, create_model, check_name):
        with pytest.raises(UserError, match=words):
            make(name)


def test_weights_must_be_asked_for_and_only_once(tmp_path: Path):
    with pytest.raises(UserError, match=r"\bmu\b.*--weights FILE.*--random-init"):
        named_model("mu")
    with pytest.raises(UserError, match=r"--weights .*--random-init"):
        named_model("mu", tmp_path / "x.safetensors", random_init=True)
    with pytest.raises(UserError, match=r"\bmu_vit\b.*--weights FILE"):
        named_model("mu", pretrained=True)


@pytest.mark.slow
def test_a_file_of_weights_arrives_and_what_was_changed_is_said(tmp_path: Path):
    source = create_model(VIT, 11, image_size=64, patch_size=16)
    path = tmp_path / "a.safetensors"
    save_file(source.state_dict(), path)
    found = named_model(VIT, path, image_size=(48, 80))
    assert found.weights == "file"
    assert found.source == "timm"
    assert not found.model.training
    assert found.model.blocks[3].attn.qkv.weight.equal(source.blocks[3].attn.qkv.weight)
    assert len(found.notes) == 2
    assert "classifier head for 11 classes" in found.notes[0]
    assert "from 4x4 to 3x5 patches" in found.notes[1]
    assert found.num_parameters == sum(x.numel() for x in found.model.parameters())
    assert found.preprocessing.crop == (48, 80)
    assert found.preprocessing.mean == (0.5, 0.5, 0.5)


def test_random_initialisation_is_the_same_each_time_and_leaves_torchs_state():
    torch.manual_seed(5)
    state = torch.get_rng_state()
    one, two = (named_model("mu", random_init=True).model.state_dict() for _ in range(2))
    assert all(one[name].equal(two[name]) for name in one)
    assert state.equal(torch.get_rng_state())


@pytest.mark.slow
def test_preprocessing_is_the_librarys_own():
    steps = named_model("vit_base_patch16_clip_224", random_init=True).preprocessing
    assert (steps.resize, steps.crop, steps.interpolation) == ((235, 235), (224, 224), "bicubic")
    assert steps.mean == pytest.approx((0.48145466, 0.4578275, 0.40821073))
    steps = named_model("torchvision/swin_t", random_init=True, image_size=(96, 160)).preprocessing
    assert (steps.resize, steps.crop, steps.keep_ratio) == ((99, 166), (96, 160), True)
    assert named_model("torchvision/vit_b_32", random_init=True).preprocessing.resize == (256, 256)
    steps = named_model("compact", random_init=True, image_size=(32, 48)).preprocessing
    assert (steps.resize, steps.crop) == ((32, 48), (32, 48))
    assert "none of its own" in (steps.doubt or "")


def test_a_model_of_any_size_is_built_without_the_option():
    found = named_model("pvt_v2_b0", random_init=True, image_size=(64, 96))
    assert found.preprocessing.crop == (64, 96)
    assert isinstance(found.model, nn.Module)


@pytest.mark.slow
@pytest.mark.usefixtures("no_network")
@pytest.mark.parametrize("name", [VIT, "torchvision/vit_b_32", "hf/facebook/dinov2-small"])
def test_without_a_network_pretrained_weights_are_one_sentence(name: str):
    if name.startswith("hf/"):
        pytest.importorskip("transformers", reason="needs the extra hf")
    own_name = name.rpartition("/")[2]
    with pytest.raises(UserError, match=rf"\b{own_name}\b.*--weights FILE"):
        named_model(name, pretrained=True)


@pytest.mark.usefixtures("no_network")
def test_an_unknown_tag_of_timm_is_said():
    with pytest.raises(
        UserError,
        match=r"224\.nonsense'.*\bmean \w+_patch16_224\.augreg_in21k\b",
    ):
        named_model(f"{VIT}.nonsense", pretrained=True)


def test_training_takes_ours_and_timms_only():
    from nearsight.models.load.registry import model_for
    from nearsight.protocol.schema import ModelSettings

    with pytest.raises(UserError, match=r"'torchvision/vit_b_16'.*\bcompact_vit\b"):
        model_for(ModelSettings(name="torchvision/vit_b_16"), 7, (32, 32))


@pytest.mark.slow
def test_a_file_of_weights_leaves_the_preparation_in_doubt(tmp_path):
    file = tmp_path / "some.safetensors"
    save_file(create_model("mu", num_classes=1000).state_dict(), file)
    assert named_model("mu", random_init=True).preprocessing.doubt == "mu_vit has none of its own"
    name = "vit_tiny_patch16_224"
    save_file(create_model(name, depth=12).state_dict(), file)
    steps = named_model(name, weights=file).preprocessing
    assert steps.doubt == "some.safetensors does not say how its images were prepared"
    assert named_model(name, random_init=True).preprocessing.doubt is None
