"""``add_locat``: what it keeps, what it adds, where it starts, what it refuses."""

from __future__ import annotations

from typing import Any

import pytest
import timm
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from nearsight.core import UserError
from nearsight.measure.profile import measure_model
from nearsight.models.load.registry import create_model
from nearsight.models.parts.locat.gaussian import Gaussian
from nearsight.models.parts.locat.locat import add_locat
from nearsight.models.vit import SIZES, VisionTransformer

VIT: dict[str, Any] = {"img_size": (48, 80), "depth": 2, "num_classes": 7}
BACKBONES: dict[str, dict[str, Any]] = {
    "vit_tiny_patch16_224": VIT,
    "vit_base_patch16_siglip_gap_224": VIT | {"embed_dim": 36, "num_heads": 3},
    "vit_medium_patch16_reg4_gap_256": VIT | {"embed_dim": 36, "num_heads": 3},
    "deit_tiny_distilled_patch16_224": VIT,
    "vit_small_patch16_rope_mixed_224": VIT | {"embed_dim": 36, "num_heads": 3},
    "eva02_tiny_patch14_224": VIT | {"img_size": (42, 70)},
    "vit_small_patch16_dinov3": VIT | {"embed_dim": 36, "num_heads": 3},
    "swin_tiny_patch4_window7_224": {
        "img_size": 56,
        "embed_dim": 6,
        "depths": (2, 2),
        "num_heads": (2, 3),
        "num_classes": 7,
    },
    "gcvit_xxtiny": {"img_size": 96, "embed_dim": 16, "num_classes": 7},
    "mu": {"num_classes": 7, "image_size": (12, 20), "patch_size": 4},
}


def backbone(name: str, **options: Any) -> nn.Module:
    """A stock model with weights large enough that attention is not uniform."""
    torch.manual_seed(0)
    model = create_model(name, **BACKBONES[name] | options).eval()
    for part, parameter in model.named_parameters():
        if parameter.ndim == 2:
            nn.init.normal_(parameter, std=0.15)
        if "gamma" in part:  # layer scales start near 0
            nn.init.ones_(parameter)
    return model


def images_for(name: str) -> Tensor:
    size = BACKBONES[name].get("img_size") or BACKBONES[name]["image_size"]
    torch.manual_seed(1)
    return torch.randn(2, 3, *((size, size) if isinstance(size, int) else size))


def set_strength(model: nn.Module, bias: float) -> None:
    for module in model.modules():
        if isinstance(module, Gaussian):
            nn.init.zeros_(module.log_alpha.weight)
            nn.init.constant_(module.log_alpha.bias, bias)


@pytest.mark.parametrize("name", BACKBONES)
def test_without_strength_the_model_is_the_plain_backbone(name: str):
    model, images = backbone(name), images_for(name)
    weights = {key: value.clone() for key, value in model.state_dict().items()}
    plain = model(images)
    add_locat(model, refine=False)
    torch.testing.assert_close(model(images), plain, atol=0.003, rtol=0)
    set_strength(model, -99.0)
    torch.testing.assert_close(model(images), plain)
    set_strength(model, 5.0)
    assert (model(images) - plain).abs().max() > 1e-3
    kept = {key: value for key, value in model.state_dict().items() if "gaug" not in key}
    assert kept.keys() == weights.keys()
    assert all(kept[key].equal(weights[key]) for key in kept)


@pytest.mark.parametrize("name", BACKBONES)
def test_three_times_the_head_width_and_three_parameters_come_per_layer(name: str):
    model = backbone(name)
    before = sum(parameter.numel() for parameter in model.parameters())
    add_locat(model, refine=False)
    heads = [x for x in model.modules() if isinstance(x, Gaussian)]
    expected = sum(3 * x.log_alpha.in_features + 3 for x in heads)
    assert len(heads) == len(model.locat.layers) >= 2
    assert sum(parameter.numel() for parameter in model.parameters()) - before == expected
    assert model.locat.num_parameters == expected
    assert f"GAug in {len(heads)} layers" in str(model.locat)
    assert f"{expected:,} parameters" in str(model.locat)


def test_a_trained_models_attention_logits_move_by_less_than_three_thousandths():
    model = add_locat(backbone("vit_tiny_patch16_224"))
    seen: list[Tensor] = []
    gaug = model.blocks[1].attn.gaug
    gaug.register_forward_hook(lambda module, args, bias: seen.append(bias.dense()))
    model(100 * images_for("vit_tiny_patch16_224"))
    assert 0.002 < seen[0].max() < 0.003


@pytest.mark.parametrize("refine", [True, False])
@pytest.mark.parametrize("name", ["mu", "vit_tiny_patch16_224"])
def test_gradient_reaches_the_last_gaug_only_with_refinement(name: str, refine: bool):
    model = add_locat(backbone(name).train(), refine=refine, published_start=True)
    logits = model(images_for(name))
    F.cross_entropy(logits, torch.tensor([1, 4])).backward()
    for part, parameter in model.named_parameters():
        assert parameter.grad is not None
        last = part.startswith("blocks.1.attn.gaug")
        assert bool(parameter.grad.any()) == (refine or not last), part


def test_models_without_a_class_token_are_refined_and_averaged():
    model = backbone("vit_tiny_patch16_224", class_token=False, global_pool="avg", fc_norm=False)
    images = images_for("vit_tiny_patch16_224")
    tokens = model.forward_features(images)
    add_locat(model, gaussian=False)
    from nearsight.models.parts.locat.refinement import refine

    expected = model.head(refine(tokens, 3).mean(1))
    torch.testing.assert_close(model(images), expected)


def test_a_norm_after_pooling_is_said():
    changes = add_locat(backbone("vit_medium_patch16_reg4_gap_256")).locat
    assert "PRR comes before the norm" in str(changes)
    assert changes.num_prefix == 4  # no class token, four registers
    assert str(changes.grid) == "3x5"


def test_our_model_pools_by_average_and_does_without_positions():
    torch.manual_seed(0)
    model = VisionTransformer(SIZES["mu_vit"], 5, (12, 20), 4, pool="avg", positions=False)
    assert model.pos_embed is None
    images = torch.randn(2, 3, 12, 20)
    features = model.forward_features(images)
    torch.testing.assert_close(model(images), model.head(features[:, 1:].mean(1)))
    swapped = images.flatten(2).unflatten(2, (3, 4, 5, 4)).flip(2).flatten(2).view_as(images)
    torch.testing.assert_close(model(swapped), model(images))  # nothing says where a patch was


def test_attention_dropout_and_masks_still_work():
    model = add_locat(backbone("vit_tiny_patch16_224", attn_drop_rate=0.5), refine=False)
    images = images_for("vit_tiny_patch16_224")
    calm = model(images)
    model.train()
    assert (model(images) - calm).abs().max() > 1e-4
    model.eval()
    mask = torch.ones(16, 16, dtype=torch.bool)
    torch.testing.assert_close(model(images, attn_mask=mask), calm)
    with pytest.raises(UserError, match=r"\bis_causal=True\b"):
        model(images, is_causal=True)


def test_tokens_that_are_not_the_grids_are_refused():
    model = add_locat(backbone("vit_tiny_patch16_224"))
    with pytest.raises(UserError, match=r"\b12 tokens\b.*\b1 prefix tokens\b.*\b3x5\b.*\b16\b"):
        model.blocks(torch.zeros(1, 12, 192))


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: add_locat(backbone("mu")), "VisionTransformer already has LocAt"),
        (
            lambda: create_model("resnet18"),
            "not to ResNet of timm: it has no attention module that nearsight knows",
        ),
        (
            lambda: create_model("xcit_nano_12_p16_224"),
            "not to Xcit of timm: it attends between channels",
        ),
        (
            lambda: create_model("swinv2_tiny_window8_256"),
            "LocAt can be added to timm's ViT.*: GAug .* none for .*swin_transformer_v2.WindowAtt",
        ),
        (lambda: create_model("naflexvit_base_patch16_gap", depth=1), "arranges its tokens"),
        (lambda: small_windows("twins pcpvt"), "not to Twins of timm: its queries .* pooled"),
        (
            lambda: backbone("swin_tiny_patch4_window7_224", window_size=1),
            r"\b2 patches\b.*\bwindow\b.*\b1 patch\b",
        ),
        (lambda: backbone("vit_tiny_patch16_224", patch_drop_rate=0.5), "patch dropout 0.5"),
        (
            lambda: backbone("vit_tiny_patch16_224", global_pool="map"),
            r"\bPRR\b.*\battention\b.*\brefine=False\b",
        ),
        (
            lambda: backbone("deit_tiny_distilled_patch16_224"),
            r"\bPRR\b.*\bdistilled\b.*\brefine=False\b",
        ),
        (
            lambda: timm.create_model("vit_tiny_patch16_224", block_fn=_parallel_block(), **VIT),
            "blocks\\.0 \\(ParallelScalingBlock\\) has its own",
        ),
    ],
)
def test_what_cannot_be_served_is_refused_with_a_reason_and_left_as_it_was(make, sentence: str):
    model = make()
    before = list(model.state_dict())
    hooks = sum(len(x._forward_pre_hooks) for x in model.modules())
    with pytest.raises(UserError, match=sentence) as error:
        add_locat(model)
    assert "\n" not in str(error.value)
    assert list(model.state_dict()) == before
    assert sum(len(x._forward_pre_hooks) for x in model.modules()) == hooks


def _parallel_block() -> type[nn.Module]:
    from timm.models.vision_transformer import ParallelScalingBlock

    return ParallelScalingBlock


def test_nothing_to_add_and_no_weak_start_are_refused():
    with pytest.raises(UserError, match=r"\bgaussian=False\b.*\brefine=False\b"):
        add_locat(backbone("mu"), gaussian=False, refine=False)
    with pytest.raises(UserError, match=r"\bstrength is 'one'.*\bpublished_start=True"):
        add_locat(backbone("mu"), gaussian={"strength": "one"})


@pytest.mark.slow
def test_davit_with_locat_has_bumps_in_its_windows_and_its_channels_are_left_alone():
    from timm.models.davit import DaVit

    torch.manual_seed(0)
    options = {"depths": (1, 1), "embed_dims": (16, 24), "num_heads": (2, 3), "window_size": 4}
    model, images = DaVit(**options, num_classes=7).eval(), torch.randn(2, 3, 36, 52)
    plain = model(images)
    names = list(model.state_dict())
    add_locat(model, refine=False)
    assert (model(images) - plain).abs().max() < 1e-5  # the start is weak
    assert model.locat.layers == ("stages.0.blocks.0.0.attn", "stages.1.blocks.0.0.attn")
    assert [name for name in model.state_dict() if "gaug" not in name] == names
    before = measure_model(model, images, metrics=("mad",))
    assert [str(layer.grid) for layer in before.layers] == ["9x13", "5x7"]  # padded to 12x16, 8x8
    assert max(layer.proof_error for layer in before.layers) < 1e-5
    for module in model.modules():
        if isinstance(module, Gaussian):
            nn.init.constant_(module.log_var.bias, -99.0)
    set_strength(model, 99.0)
    near = measure_model(model, images, metrics=("mad",))
    for layer, wide in zip(near.mad.mean, before.mad.mean, strict=True):
        assert layer.max() < 1e-6 < wide.min()


def small_windows(name: str) -> nn.Module:
    """A small model of a family with windows that no table lists, with random weights."""
    from timm.models.nest import Nest
    from timm.models.tiny_vit import TinyVit
    from timm.models.twins import Twins

    torch.manual_seed(0)
    twins = {"img_size": (40, 56), "depths": (2, 2), "mlp_ratios": (2, 2), "sr_ratios": (4, 2)}
    stages = {"embed_dims": (32, 48), "num_heads": (2, 3), "num_classes": 7}
    made = {
        "twins": lambda: Twins(**twins, **stages, wss=(4, 3)),
        "twins pcpvt": lambda: Twins(**twins, **stages),
        "nest": lambda: Nest(
            img_size=40, num_levels=2, depths=(1, 1), drop_path_rate=0.0, **stages
        ),
        "tiny_vit": lambda: TinyVit(depths=(1, 1), window_sizes=(7, 4), **stages),
    }
    model = made[name]().eval()
    for part, parameter in model.named_parameters():
        if "attn" in part:
            nn.init.normal_(parameter, std=0.15)
    return model


WINDOWS = {  # size of the images, grids of the layers with GAug, and their names
    "twins": ((40, 56), ["10x14", "5x7"], ("blocks.0.0.attn", "blocks.1.0.attn")),
    "nest": (
        (40, 40),
        ["10x10", "5x5"],
        ("levels.0.transformer_encoder.0.attn", "levels.1.transformer_encoder.0.attn"),
    ),
    "tiny_vit": ((80, 48), ["10x6"], ("stages.1.blocks.0.attn",)),
}


@pytest.mark.parametrize("name", WINDOWS)
@pytest.mark.slow
def test_windows_whose_places_are_found_get_bumps(name: str):
    size, grids, layers = WINDOWS[name]
    model, images = small_windows(name), torch.randn(2, 3, *size)
    with torch.no_grad():
        plain = model(images)
        weights = {key: value.clone() for key, value in model.state_dict().items()}
        add_locat(model, refine=False)
        torch.testing.assert_close(model(images), plain, atol=0.003, rtol=0)
        set_strength(model, -99.0)
        torch.testing.assert_close(model(images), plain)
    kept = {key: value for key, value in model.state_dict().items() if "gaug" not in key}
    assert kept.keys() == weights.keys()
    assert all(kept[key].equal(weights[key]) for key in kept)
    assert model.locat.layers == layers
    assert ("2 layers that attend to the whole map stay" in str(model.locat)) == (name == "twins")
    before = measure_model(model, images, metrics=("mad",))
    augmented = [i for i, x in enumerate(before.layers) if x.name in layers]
    assert [str(before.layers[i].grid) for i in augmented] == grids
    assert max(layer.proof_error for layer in before.layers) < 1e-5
    for module in model.modules():
        if isinstance(module, Gaussian):
            nn.init.constant_(module.log_var.bias, -99.0)
    set_strength(model, 99.0)
    near = measure_model(model, images, metrics=("mad",))
    for i in augmented:
        assert near.mad.mean[i].max() < 1e-6 < before.mad.mean[i].min()


@pytest.mark.parametrize("name", WINDOWS)
def test_every_parameter_of_a_model_with_windows_gets_a_gradient(name: str):
    model = add_locat(small_windows(name), published_start=True).train()
    F.cross_entropy(model(torch.randn(2, 3, *WINDOWS[name][0])), torch.tensor([3, 5])).backward()
    assert not [part for part, x in model.named_parameters() if x.grad is None]
    assert not [part for part, x in model.named_parameters() if "gaug" in part and not x.grad.any()]


@pytest.mark.parametrize("name", WINDOWS)
def test_prr_pools_models_with_windows(name: str):
    model, images = small_windows(name), torch.randn(3, 3, *WINDOWS[name][0])
    add_locat(model, gaussian=False)
    features = model.forward_features(images)  # [image, patch, width] or [image, width, row, col]
    patches = features if features.ndim == 3 else features.flatten(2).mT
    num_heads = 2 if name == "tiny_vit" and patches.shape[-1] == 32 else 3
    heads = patches.unflatten(-1, (num_heads, -1)).transpose(1, 2)
    scale = heads.shape[-1] ** -0.5
    refined = (heads @ heads.mT * scale).softmax(-1) @ heads
    pooled = refined.transpose(1, 2).flatten(2).mean(1)
    if name == "tiny_vit":
        expected = model.head.fc(model.head.norm(pooled[..., None, None]).flatten(1))
    else:
        expected = model.head(pooled)
    torch.testing.assert_close(model(images), expected)


def test_prr_comes_before_the_norm_of_davits_head():
    from timm.models.davit import DaVit

    options = {"depths": (1,), "embed_dims": (16,), "num_heads": (2,), "window_size": 4}
    model = add_locat(DaVit(**options, num_classes=7).eval(), gaussian=False)
    images = torch.randn(3, 3, 36, 52)
    patches = model.forward_features(images).flatten(2).mT  # [image, patch, width]
    heads = patches.unflatten(-1, (2, 8)).transpose(1, 2)
    refined = (heads @ heads.mT / 8**0.5).softmax(-1) @ heads
    pooled = model.head.norm(refined.transpose(1, 2).flatten(2).mean(1)[..., None, None])
    torch.testing.assert_close(model(images), model.head.fc(pooled.flatten(1)))


@pytest.mark.slow
def test_gcvit_with_locat_trains_every_parameter_and_is_measured_in_its_windows():
    """The paper's negative control; half of its layers share queries of the whole image."""
    model = add_locat(backbone("gcvit_xxtiny"), published_start=True)
    assert str(model.locat).startswith("GAug in 12 layers inside its windows")
    F.cross_entropy(model.train()(images_for("gcvit_xxtiny")), torch.tensor([3, 5])).backward()
    assert not [name for name, x in model.named_parameters() if x.grad is None]
    assert not [name for name, x in model.named_parameters() if "gaug" in name and not x.grad.any()]
    profile = measure_model(model, images_for("gcvit_xxtiny"), metrics=("mad",))
    assert [str(x.grid) for x in profile.layers[:4]] == ["24x24", "24x24", "12x12", "12x12"]
    assert profile.layers[1].num_windows == 64
    assert "share queries pooled from the whole image" in profile.layers[1].note
    assert len(profile.layers) == 12
    assert max(x.proof_error for x in profile.layers) < 1e-5
    # A bump that is strong and narrow (the bound of exp's input) keeps every row at its own patch.
    for module in model.modules():
        if isinstance(module, Gaussian):
            nn.init.constant_(module.log_var.bias, -99.0)
    set_strength(model, 99.0)
    near = measure_model(model, images_for("gcvit_xxtiny"), metrics=("mad",))
    for layer, before in zip(near.mad.mean, profile.mad.mean, strict=True):
        assert layer.max() < 1e-6 < before.min()
