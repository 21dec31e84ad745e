"""``add_gpsa``: where tokens join, what it keeps, its ablations, what it refuses."""

from __future__ import annotations

from typing import Any

import pytest
import timm
import torch
from timm.layers.attention import Attention
from torch import Tensor, nn

from nearsight.core import UserError
from nearsight.models.load.registry import create_model, model_for
from nearsight.models.parts.gpsa.convit import add_gpsa
from nearsight.models.parts.gpsa.gpsa import GPSA
from nearsight.protocol import GpsaSettings, ModelSettings

SMALL: dict[str, Any] = {"depth": 3, "embed_dim": 28, "num_heads": 4, "patch_size": 8}


def small(image_size: tuple[int, int] = (24, 40), **options: Any) -> Any:
    """A ConViT of 2 GPSA layers and a plain one on a 3x5 grid, with weights that matter."""
    torch.manual_seed(0)
    model = create_model(
        "convit_tiny", 11, image_size, **SMALL | {"gpsa": {"layers": 2}} | options
    ).eval()
    for parameter in model.parameters():
        if parameter.ndim == 2:
            nn.init.normal_(parameter, std=0.2)
    return model


def some_images(height: int = 24, width: int = 40) -> Tensor:
    torch.manual_seed(1)
    return torch.randn(2, 3, height, width)


@pytest.mark.parametrize("options", [{}, {"reg_tokens": 2}, {"distilled": True}])
def test_prefix_tokens_join_the_patches_after_the_last_gpsa_layer(options: dict[str, Any]):
    """The published order of things: patches alone through GPSA, then all tokens."""
    model, images = small(**options), some_images()
    for token in ("cls_token", "reg_token", "dist_token"):
        if getattr(model, token, None) is not None:
            nn.init.normal_(getattr(model, token))
    with torch.no_grad():
        x = model.patch_embed(images) + model.pos_embed
        for block in model.blocks[:2]:
            x = x + block.attn(block.norm1(x))
            x = x + block.mlp(block.norm2(x))
        tokens = [model.cls_token, getattr(model, "dist_token", None), model.reg_token]
        front = [token.expand(2, -1, -1) for token in tokens if token is not None]
        x = model.norm(model.blocks[2](torch.cat([*front, x], 1)))
        expected = model.head(x[:, 0])
        if options == {"distilled": True}:
            expected = (expected + model.head_dist(x[:, 1])) / 2
        torch.testing.assert_close(model(images), expected, atol=1e-5, rtol=0)


STOCK = {
    "vit_tiny_patch16_224": {"img_size": (48, 80), "depth": 3},
    "vit_medium_patch16_reg4_gap_256": {
        "img_size": (48, 80), "depth": 3, "embed_dim": 28, "num_heads": 4,
    },
    "vit_small_patch16_36x1_224": {
        "img_size": (48, 80), "depth": 3, "embed_dim": 28, "num_heads": 4,
    },
    "nano": {"image_size": (12, 20), "patch_size": 4},
}  # fmt: skip


@pytest.mark.parametrize("name", STOCK)
def test_add_gpsa_keeps_queries_keys_and_outputs_and_starts_values_as_inputs(name: str):
    torch.manual_seed(0)
    model = create_model(name, 7, **STOCK[name])
    before = {key: value.clone() for key, value in model.state_dict().items()}
    assert add_gpsa(model, layers=2, locality_strength=0.5) is model
    after = model.state_dict()
    for layer in range(2):
        at, qkv = f"blocks.{layer}.attn", before[f"blocks.{layer}.attn.qkv.weight"]
        width = qkv.shape[1]
        assert after[f"{at}.qk.weight"].equal(qkv[: 2 * width])
        assert after[f"{at}.v.weight"].equal(torch.eye(width))
        assert after[f"{at}.gating_param"].eq(1).all()
        assert after[f"{at}.pos_proj.weight"][0, 2] == -0.5
    others = {key for key in before if ".attn.qkv" not in key or key.startswith("blocks.2")}
    assert others <= after.keys()
    assert all(after[key].equal(before[key]) for key in others)
    assert model.gpsa.layers == ("blocks.0.attn", "blocks.1.attn")
    found = sum(x.numel() for x in after.values()) - sum(x.numel() for x in before.values())
    assert found == model.gpsa.num_parameters == 2 * 5 * model.gpsa.num_heads
    size = STOCK[name].get("img_size") or STOCK[name]["image_size"]
    logits = model(torch.randn(2, 3, *size))
    logits.square().sum().backward()
    without = [name for name, parameter in model.named_parameters() if parameter.grad is None]
    assert without == []


@pytest.mark.slow
def test_by_default_all_but_the_last_two_layers_have_gpsa():
    def layers(name: str) -> int:
        with torch.device("meta"):
            return len(create_model(name).gpsa.layers)

    found = [layers(x) for x in ("convit_base", "compact_convit", "nano_convit", "mu_convit")]
    assert found == [10, 6, 2, 1]


def test_heads_beyond_the_kernel_are_reported():
    text = str(add_gpsa(create_model("compact_vit")).gpsa)
    assert text.endswith(
        "started as a 2x2 convolution of strength 1; 4 of 8 heads beyond the kernel, at random"
    )
    assert "beyond" not in str(create_model("compact_convit").gpsa)


def test_no_gpsa_layer_is_the_plain_model_and_gpsa_everywhere_pools_the_patches():
    torch.manual_seed(0)
    plain = create_model("nano", 7).eval()
    images = some_images(32, 32)
    with torch.no_grad():
        expected = plain(images)
        assert add_gpsa(plain, layers=0)(images).equal(expected)
        everywhere = create_model("nano", 7, gpsa={"layers": 4}).eval()
        features = everywhere.forward_features(images)
        by_hand = everywhere.head(features[:, 1:].mean(1))
        torch.testing.assert_close(everywhere(images), by_hand)
    assert "the head reads the mean of the patches" in str(everywhere.gpsa)


def test_the_ablations_freeze_what_they_say():
    model = create_model("nano_convit", 7, gpsa={"train_gates": False})
    frozen = [name for name, x in model.named_parameters() if not x.requires_grad]
    assert frozen == ["blocks.0.attn.gating_param", "blocks.1.attn.gating_param"]
    assert model.blocks[0].attn.gates().eq(0.5).all()
    model = create_model("nano_convit", 7, gpsa={"train_attention": False})
    frozen = {
        name.rpartition(".attn.")[0] for name, x in model.named_parameters() if not x.requires_grad
    }
    assert frozen == {"blocks.0", "blocks.1"}
    assert all(not x.requires_grad for x in model.blocks[0].attn.parameters())
    torch.manual_seed(3)
    model = create_model("nano_convit", 7, gpsa={"convolution": False})
    attention = model.blocks[0].attn
    assert attention.v.weight.std().item() == pytest.approx(0.02, rel=0.1)
    assert attention.pos_proj.weight.abs().max() < 0.05
    assert attention.gates().eq(torch.tensor(1.0).sigmoid()).all()


def test_any_image_size_has_its_grid():
    fixed, free = small((40, 56)), small(dynamic_img_size=True)
    free.load_state_dict(
        {key: x for key, x in fixed.state_dict().items() if key != "pos_embed"}, strict=False
    )
    nn.init.zeros_(fixed.pos_embed)
    nn.init.zeros_(free.pos_embed)
    images = some_images(40, 56)
    with torch.no_grad():
        torch.testing.assert_close(free(images), fixed(images))
        free.set_input_size(img_size=(40, 56))
        torch.testing.assert_close(free(images), fixed(images))


@pytest.mark.slow
def test_what_cannot_have_gpsa_is_refused_in_a_sentence():
    def tiny(name: str, **options: Any) -> nn.Module:
        with torch.device("meta"):
            return create_model(name, **options)

    for model, words in [
        (tiny("swin_tiny_patch4_window7_224"), r"\bGPSA\b.*\bSwinTransformer of timm\b"),
        (tiny("mu_locat"), "this model already has LocAt"),
        (tiny("mu_convit"), "VisionTransformer already has GPSA"),
        (tiny("vit_tiny_patch16_224", patch_drop_rate=0.1), "patch dropout 0.1"),
        (tiny("vit_small_patch16_18x2_224", depth=1), "ParallelThingsBlock"),
    ]:
        with pytest.raises(UserError, match=words):
            add_gpsa(model)
    with pytest.raises(UserError, match=r"\blayers is 3\b.*\b2\b"):
        add_gpsa(create_model("mu"), layers=3)
    with pytest.raises(UserError, match=r"\bgpsa\b.*\bstrength\b.*\b0\b"):
        add_gpsa(create_model("mu"), locality_strength=0.0)
    with pytest.raises(UserError, match=r"'kernel'.*\blayers, strength, convolution\b"):
        create_model("mu", gpsa={"kernel": 3})
    with pytest.raises(UserError, match=r"\b2 layers\b.*\bclass and distillation tokens\b"):
        create_model("mu", distilled=True, gpsa={"layers": 2})
    with pytest.raises(UserError, match=r"\bGAug and GPSA\b"):
        create_model("mu_locat", gpsa=True)
    with pytest.raises(UserError, match=r"\bGPSA\b.*\bblocks\.0\.attn\.gating_param\b.*\bgpsa="):
        small().load_state_dict(small(gpsa=False).state_dict())
    with pytest.raises(UserError, match=r"\bdist_token\b.*\bdistilled="):
        small().load_state_dict(small(distilled=True).state_dict())
    with pytest.raises(UserError, match=r"\b28\b.*\b5 heads\b"):
        small(num_heads=5)


def test_without_a_class_token_the_patches_are_pooled():
    model, images = small(class_token=False, pool="avg"), some_images()
    assert model.cls_token is None
    with torch.no_grad():
        patches = model.forward_features(images)
        assert patches.shape[1] == 15
        torch.testing.assert_close(model(images), model.head(model.fc_norm(patches.mean(1))))


def test_a_protocol_builds_the_model_it_describes():
    settings = ModelSettings(
        name="nano_vit", num_heads=3, distilled=True, gpsa=GpsaSettings(layers=1, strength=3.0)
    )
    model, size = model_for(settings, num_classes=7, data_size=(32, 32))
    assert size == (32, 32)
    assert isinstance(model.blocks[0].attn, GPSA)
    assert model.blocks[0].attn.pos_proj.weight[0].tolist() == [0, 0, -3]
    assert not isinstance(model.blocks[1].attn, GPSA)
    assert model.blocks[1].attn.num_heads == 3
    assert model.num_prefix == 2


def test_depth_width_and_heads_take_the_place_of_the_sizes_own():
    settings = ModelSettings(name="nano_convit", depth=3, width=35, num_heads=5)
    model, _ = model_for(settings, num_classes=7, data_size=(32, 32))
    assert len(model.blocks) == 3
    assert model.gpsa.layers == ("blocks.0.attn",)
    assert model.blocks[2].mlp.fc1.weight.shape == (70, 35)
    assert model.blocks[2].attn.num_heads == 5
    settings = ModelSettings(name="vit_tiny_patch16_224", depth=2, width=12, num_heads=3)
    model, _ = model_for(settings, num_classes=7, data_size=(32, 32))
    assert (len(model.blocks), model.embed_dim) == (2, 12)
    with pytest.raises(UserError, match="depth is 0"):
        create_model("nano", depth=0)
    with pytest.raises(UserError, match="num_heads is 0"):
        create_model("mu", num_heads=0)
    with pytest.raises(UserError, match=r"\bpatch_size\b.*\b1\b.*\b0$"):
        create_model("mu", patch_size=0)
    with pytest.raises(UserError, match="num_heads is"):
        create_model("nano", num_heads=(2, 3))


def test_heads_of_another_width_keep_the_models_values_and_that_is_said():
    torch.manual_seed(0)
    size = {"img_size": 48, "depth": 3, "embed_dim": 28, "num_heads": 4}
    model = timm.create_model("vit_tiny_patch16_224", **size)
    for block in model.blocks:
        block.attn = Attention(28, num_heads=4, attn_head_dim=5)
    values = model.blocks[0].attn.qkv.weight[40:].clone()
    add_gpsa(model)
    assert "values keep their start" in str(model.gpsa)
    assert model.blocks[0].attn.v.weight.equal(values)
    assert model(torch.randn(2, 3, 48, 48)).isfinite().all()
