"""A layer whose attention is not what we recompute is refused by name, and so is what is unseen."""

import sys
import types

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import nearsight as ns
from nearsight.core import UserError
from nearsight.measure.capture import interception as capture
from nearsight.measure.rows import proof
from nearsight.models.load.registry import create_model


def vit(**options):
    torch.manual_seed(3)
    return create_model(
        "vit_tiny_patch16_224",
        7,
        image_size=(48, 80),
        depth=2,
        embed_dim=12,
        num_heads=3,
        **options,
    )


IMAGES = torch.randn(4, 3, 48, 80, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("num_rows", [256, 5])
def test_the_proof_error_of_every_layer_is_in_the_profile(num_rows, monkeypatch):
    monkeypatch.setattr(proof, "NUM_ROWS", num_rows)
    profile = ns.measure_model(vit(), IMAGES)
    assert all(0 < layer.proof_error < 1e-6 for layer in profile.layers)


@pytest.mark.parametrize("num_rows", [256, 5])  # all rows, and every third
def test_a_wrong_scale_is_found_by_the_proof(num_rows, monkeypatch):
    monkeypatch.setattr(proof, "NUM_ROWS", num_rows)
    right = capture._fused_arguments

    def wrong(*args, **kwargs):
        found = right(*args, **kwargs)
        return found | {"scale": 3 * found["scale"]}

    monkeypatch.setattr(capture, "_fused_arguments", wrong)
    model = vit()
    for block in model.blocks:
        nn.init.normal_(block.attn.qkv.weight)
    with pytest.raises(UserError, match=r"\blayer blocks\.0\.attn \(Attention\) .*\b0\.0001\b"):
        ns.measure_model(model, IMAGES)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_passes_with_its_own_tolerance(dtype):
    model = vit()
    for block in model.blocks:
        nn.init.normal_(block.attn.qkv.weight, std=0.5)
    half = ns.measure_model(model.to(dtype), IMAGES)
    whole = ns.measure_model(model.float(), IMAGES)
    assert all(1e-6 < layer.proof_error < 2e-2 for layer in half.layers)
    assert half.mad.mean[0] == pytest.approx(whole.mad.mean[0], abs=1e-2)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("wrap", ["outside", "a block", "in place"])
@pytest.mark.slow
def test_a_compiled_model_is_measured_through_its_inside(wrap):
    model = vit()
    expected = ns.measure_model(model, IMAGES).mad.mean[1]
    if wrap == "outside":
        model = torch.compile(model, backend="eager")
    elif wrap == "a block":
        model.blocks[1] = torch.compile(model.blocks[1], backend="eager")
    else:
        model.compile(backend="eager")
    assert ns.measure_model(model, IMAGES).mad.mean[1] == pytest.approx(expected, abs=1e-6)


@pytest.mark.slow
def test_a_wrapped_model_is_measured_through_its_inside():
    model = vit()
    wrapped = ns.measure_model(nn.DataParallel(model), IMAGES)
    assert [layer.name for layer in wrapped.layers] == ["blocks.0.attn", "blocks.1.attn"]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_scripted_layer_is_refused_by_name():
    model = vit()
    model.blocks[1].attn = torch.jit.trace(model.blocks[1].attn.eval(), torch.zeros(1, 16, 12))
    with pytest.raises(UserError, match=r"\bblocks\.1\.attn .*\bTorchScript\b.*\(Attention\)"):
        ns.measure_model(model, IMAGES)


def foreign_kernel(queries, keys, values):
    """Stands for a fused kernel that torch's function modes cannot see."""
    with torch._C.DisableTorchFunction():
        return F.scaled_dot_product_attention(queries, keys, values)


def test_attention_of_another_library_is_refused_with_its_name(monkeypatch):
    monkeypatch.setitem(sys.modules, "xformers", types.ModuleType("xformers"))
    monkeypatch.setattr(foreign_kernel, "__module__", "xformers.ops")

    class MemEffAttention(nn.Module):
        def __init__(self):
            super().__init__()
            self.qkv = nn.Linear(12, 36)

        def forward(self, x, **_):
            q, k, v = self.qkv(x).unflatten(-1, (3, 3, 4)).permute(2, 0, 3, 1, 4)
            return foreign_kernel(q, k, v).transpose(1, 2).flatten(2)

    model = vit()
    model.blocks[1].attn = MemEffAttention()
    message = r"\blayer blocks\.1\.attn \(MemEffAttention\) .*\bxformers\b"
    with pytest.raises(UserError, match=message):
        ns.measure_model(model, IMAGES)
    with pytest.raises(UserError, match=message), ns.capture_attention(model):
        model(IMAGES)


def test_linear_attention_is_left_out_by_name_and_refused_where_nothing_else_is_left():
    class LinearAttention(nn.Module):
        def __init__(self):
            super().__init__()
            self.qkv = nn.Linear(12, 36)

        def forward(self, x, **_):
            q, k, v = self.qkv(x).chunk(3, -1)
            return F.elu(q) @ (F.elu(k).mT @ v)

    model = vit()
    model.blocks[0].attn = LinearAttention()
    profile = ns.measure_model(model, IMAGES)
    assert [layer.name for layer in profile.layers] == ["blocks.1.attn"]
    ((name, reason),) = profile.skipped
    assert name == "blocks.0.attn"
    assert reason.startswith("no softmax over keys was seen in it")
    model.blocks[1].attn = LinearAttention()
    message = r"blocks.0.attn \(LinearAttention\) \(and 1 more .* no softmax over keys"
    with pytest.raises(UserError, match=message):
        ns.measure_model(model, IMAGES)


def test_a_model_without_attention_is_refused():
    network = nn.Sequential(nn.Conv2d(3, 5, 3), nn.ReLU())
    with pytest.raises(UserError, match=r"^Sequential "):
        ns.measure_model(network, IMAGES)
