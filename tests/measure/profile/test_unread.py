"""Layers that no output reads: found by gradient, whatever the family, marked and left out."""

import pytest
import timm
import torch
from measure import toy_models
from timm.models.swin_transformer import SwinTransformer
from timm.models.vision_transformer import VisionTransformer
from torch import nn

from nearsight.measure.capture import AttentionCapture
from nearsight.measure.profile import load_profile, measure_model, unread_layers
from nearsight.models.load.registry import create_model
from nearsight.models.zoo.locat_models import LocAtJumbo

SMALL = {
    "img_size": (12, 20), "patch_size": 4, "embed_dim": 14, "depth": 3, "num_heads": 2,
    "num_classes": 5,
}  # fmt: skip


def vit(**options) -> nn.Module:
    torch.manual_seed(5)
    return toy_models.sharpened(VisionTransformer(**SMALL | options))


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, [False, False, True]),
        ({"reg_tokens": 2}, [False, False, True]),
        ({"global_pool": "avg"}, [False, False, False]),
        ({"global_pool": "map"}, [False, False, False]),
        ({"num_classes": 0}, [False, False, False]),
        ({"num_classes": 0, "global_pool": ""}, [False, False, False]),
    ],
)
def test_the_last_layer_is_unread_where_a_classifier_reads_the_class_token(options, expected):
    assert unread_layers(vit(**options), toy_models.images(12, 20, 1)) == expected


@pytest.mark.slow
def test_changing_an_unread_layer_leaves_the_logits_and_changing_another_does_not():
    model, images = vit(), toy_models.images(12, 20, 2)
    plain = model(images)

    def with_noise_in(name):
        def change(call):
            if call.name != name:
                return call
            noisy = call.output.clone()
            noisy[..., 1:, :] += 1.0  # the rows of patches
            return type(call)(**{**vars(call), "output": noisy})

        with torch.no_grad(), AttentionCapture(model, lambda call: None, change):
            return model(images)

    assert [with_noise_in(f"blocks.{i}.attn").equal(plain) for i in range(3)] == [
        False, False, True,
    ]  # fmt: skip


def test_windows_and_pooled_keys_have_no_unread_layer():
    for model, size in ((toy_models.windows(), (20, 28)), (toy_models.pooled(), (24, 40))):
        found = unread_layers(model, toy_models.images(*size, 1))
        assert found
        assert not any(found)
    assert isinstance(toy_models.windows(), SwinTransformer)


def test_a_model_without_a_head_leaves_nothing_out():
    model = vit()
    model.head = nn.Identity()
    assert unread_layers(model, toy_models.images(12, 20, 1)) == [False] * 3


def test_half_precision_and_probabilities_are_no_obstacle():
    images = toy_models.images(12, 20, 1)
    assert unread_layers(vit().bfloat16(), images.bfloat16()) == [False, False, True]

    class Sure(nn.Module):
        def __init__(self):
            super().__init__()
            self.inside = vit()

        def forward(self, x):
            return self.inside(x).softmax(-1)

    assert unread_layers(Sure(), images) == [False, False, True]


@pytest.mark.slow
def test_what_cannot_be_differentiated_is_not_known():
    class Fixed(nn.Module):
        def __init__(self):
            super().__init__()
            self.inside = vit()

        def forward(self, x):
            with torch.no_grad():
                return self.inside(x)

    images = toy_models.images(12, 20)
    profile = measure_model(Fixed(), images)
    assert [layer.unread for layer in profile.layers] == [None] * 3
    assert profile.read_layers == [0, 1, 2]
    jumbo = LocAtJumbo(**SMALL, num_class_tokens=2, gaussian=False, refine=False)
    assert unread_layers(jumbo, images[:1]) is None  # its classifier starts at 0


def test_measuring_marks_the_layers_and_a_file_keeps_them(tmp_path):
    model = vit()
    profile = measure_model(model, toy_models.images(12, 20))
    assert [layer.unread for layer in profile.layers] == [False, False, True]
    assert profile.read_layers == [0, 1]
    again = load_profile(profile.save(tmp_path / "profile.safetensors"))
    assert again.read_layers == [0, 1]
    assert all(x.grad is None for x in model.parameters())


def test_a_model_of_timm_by_name_and_one_of_ours_agree():
    for model in (timm.create_model("vit_tiny_patch16_224", img_size=32, depth=2), None):
        model = model or create_model("mu")
        assert unread_layers(model.eval(), torch.ones(1, 3, 32, 32)) == [False, True]


class FoundWindows(nn.Module):
    """Two windows of 2x2 patches that are folded between images and heads, then a classifier."""

    def __init__(self, reads):
        super().__init__()
        torch.manual_seed(3)
        self.patches = nn.Conv2d(3, 22, 4, stride=4)
        self.qkv = nn.Linear(22, 66)
        self.head = nn.Linear(22, 5)
        self.reads = reads

    def forward(self, images):
        x = self.patches(images).unflatten(-1, (2, 2)).permute(0, 3, 2, 4, 1).flatten(2, 3)
        q, k, v = self.qkv(x).unflatten(-1, (3, 2, 11)).permute(3, 0, 4, 1, 2, 5)
        out = nn.functional.scaled_dot_product_attention(q, k, v)  # [image, head, window, ...]
        out = out.permute(0, 2, 3, 1, 4).flatten(3)
        return self.head((x + out if self.reads else x).mean((1, 2)))


@pytest.mark.slow
@pytest.mark.parametrize("reads", [True, False])
def test_layers_whose_windows_were_found_by_measuring_are_read_or_not(reads):
    model, images = FoundWindows(reads), toy_models.images(8, 16, 2)
    profile = measure_model(model, images, metrics=("mad",))
    assert profile.layers[0].num_windows == 2
    # Nothing that the logits depend on: then it is not known which layers are read.
    assert unread_layers(model, images[:1]) == ([False] if reads else None)
