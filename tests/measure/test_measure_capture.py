"""Capture sees what the model really computes, and changes nothing."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from nearsight.measure.capture import AttentionCapture, patch_geometry
from nearsight.measure.profile import attention_profile
from nearsight.models.grid import Grid
from nearsight.models.registry import create_model


def sharpened(model):
    """The model with larger query and key weights, so that attention is far from uniform."""
    torch.manual_seed(5)
    for block in model.blocks:
        nn.init.normal_(block.attn.qkv.weight, std=0.4)
    return model.eval()


def our_model():
    torch.manual_seed(3)
    return sharpened(create_model("mu", 7, image_size=(12, 20), patch_size=4, num_registers=2))


def timm_model(**options):
    torch.manual_seed(3)
    model = create_model(
        "vit_tiny_patch16_224", 7, image_size=(48, 80), depth=3, embed_dim=66, **options
    )
    return sharpened(model)


def images_for(model, batch=5):
    size = (12, 20) if hasattr(model, "grid") else (48, 80)
    return torch.randn(batch, 3, *size, generator=torch.Generator().manual_seed(2))


@pytest.mark.parametrize("build", [our_model, timm_model])
def test_captured_weights_times_values_are_the_layers_output(build):
    model = build()
    captured, outputs = [], []
    for block in model.blocks:
        block.attn.proj.register_forward_pre_hook(lambda _, given: outputs.append(given[0]))
    with torch.no_grad(), AttentionCapture(captured.append):
        model(images_for(model))
    assert [call.layer for call in captured] == list(range(1, len(model.blocks) + 1))
    for call, output in zip(captured, outputs, strict=True):
        weighted = call.weights() @ call.values
        assert call.weights().amax() > 0.5
        assert torch.allclose(weighted.transpose(1, 2).flatten(2), output, atol=1e-5)


@pytest.mark.parametrize("build", [our_model, timm_model])
def test_capture_leaves_the_logits_bit_identical(build):
    model = build()
    images = images_for(model)
    with torch.no_grad():
        before = model(images)
        with AttentionCapture(lambda call: call.weights()):
            during = model(images)
    assert torch.equal(before, during)


def test_a_fused_vit_of_timm_is_measured_as_its_unfused_softmax():
    model = timm_model(num_heads=3, reg_tokens=1)
    assert model.blocks[0].attn.fused_attn
    images = images_for(model)
    profile = attention_profile(model, [images])
    assert (profile.grid, profile.num_prefix) == (Grid(3, 5), 2)
    softmaxes = []
    for block in model.blocks:
        block.attn.fused_attn = False
        block.attn.attn_drop.register_forward_hook(lambda _, given, out: softmaxes.append(out))
    with torch.no_grad():
        model(images)
    for layer, attention in enumerate(softmaxes):
        patches = attention[..., 2:, 2:].double()
        patches = patches / patches.sum(-1, keepdim=True)
        expected = (patches * Grid(3, 5).distances()).sum(-1).mean(-1)
        assert torch.allclose(profile.mad[layer], expected, atol=1e-6)
        own = patches.diagonal(dim1=-2, dim2=-1).mean(-1)
        assert torch.allclose(profile.self_mass[layer], own, atol=1e-6)


@pytest.mark.parametrize("kind", ["boolean", "additive", "causal", "scale"])
def test_masks_and_scales_of_fused_attention_are_taken_over(kind):
    torch.manual_seed(13)
    queries, keys = torch.randn(2, 3, 5, 7), torch.randn(2, 3, 11, 7)
    values = torch.randn(2, 3, 11, 13)
    options = {
        "boolean": {"attn_mask": torch.rand(5, 11) > 0.3},
        "additive": {"attn_mask": torch.randn(2, 1, 5, 11)},
        "causal": {"is_causal": True},
        "scale": {"scale": 1.7},
    }[kind]
    captured = []
    with AttentionCapture(captured.append):
        output = F.scaled_dot_product_attention(queries, keys, values, **options)
    assert torch.allclose(captured[0].weights() @ values, output, atol=1e-5)


def test_half_precision_attention_is_recomputed_in_float32():
    captured = []
    tokens = torch.randn(2, 3, 5, 7, dtype=torch.bfloat16)
    with AttentionCapture(captured.append):
        F.scaled_dot_product_attention(tokens, tokens, tokens)
    assert captured[0].weights().dtype == torch.float32


def test_grouped_queries_are_refused():
    queries, keys = torch.randn(1, 4, 5, 7), torch.randn(1, 2, 5, 7)
    with pytest.raises(ValueError, match="grouped-query"), AttentionCapture(print):
        F.scaled_dot_product_attention(queries, keys, keys, enable_gqa=True)


def test_a_model_without_attention_is_refused():
    with pytest.raises(ValueError, match="no such call was seen"):
        attention_profile(nn.Flatten().eval(), [torch.zeros(2, 3)], Grid(3, 5), 1)


def test_a_model_whose_tokens_are_not_prefix_plus_grid_is_refused():
    model = our_model()
    with pytest.raises(ValueError, match=r"16 tokens of 1 prefix .* got 18 queries"):
        attention_profile(model, [images_for(model)], Grid(3, 5), 1)


def test_a_model_that_does_not_tell_its_grid_is_refused():
    with pytest.raises(ValueError, match="tells its grid"):
        patch_geometry(nn.Linear(2, 3))


def test_a_model_in_training_mode_is_refused():
    model = our_model().train()
    with pytest.raises(ValueError, match="evaluation mode"):
        attention_profile(model, [images_for(model)])
