"""Kernels of other libraries are recognised by name: measured, or refused with a sentence."""

import sys
import types
import warnings

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import nearsight as ns
from nearsight.core import UserError
from nearsight.measure.capture.interception import AttentionCapture
from nearsight.models.layers.grid import Grid


def memory_efficient_attention(query, key, value, attn_bias=None, p=0.0, scale=None):
    """What xformers computes, on [batch, token, head, width]."""
    q, k, v = (x.transpose(1, 2) for x in (query, key, value))
    with torch._C.DisableTorchFunction():
        return F.scaled_dot_product_attention(q, k, v, attn_bias, scale=scale).transpose(1, 2)


def flash_attn_func(q, k, v, dropout_p=0.0, softmax_scale=None, causal=False, window_size=(-1, -1)):
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    with torch._C.DisableTorchFunction():
        found = F.scaled_dot_product_attention(q, k, v, is_causal=causal, scale=softmax_scale)
    return found.transpose(1, 2)


def flash_attn_qkvpacked_func(qkv, dropout_p=0.0, softmax_scale=None, causal=False):
    return flash_attn_func(*qkv.unbind(2), softmax_scale=softmax_scale, causal=causal)


def flash_attn_varlen_func(q, k, v, cu_seqlens_q, cu_seqlens_k):
    """Images of different sizes in one row of tokens: refused by name."""
    q, k, v = (x.transpose(0, 1) for x in (q, k, v))
    with torch._C.DisableTorchFunction():
        return F.scaled_dot_product_attention(q, k, v).transpose(0, 1)


flash_attn_varlen_func.__module__ = "flash_attn.flash_attn_interface"


def flex_attention(query, key, value, score_mod=None, block_mask=None, scale=None):
    with torch._C.DisableTorchFunction():
        return F.scaled_dot_product_attention(query, key, value, scale=scale)


@pytest.fixture
def libraries(monkeypatch):
    """Fake libraries, with the functions where the real ones have them."""
    xformers, ops = types.ModuleType("xformers"), types.ModuleType("xformers.ops")
    flash = types.ModuleType("flash_attn")
    ops.memory_efficient_attention = memory_efficient_attention
    flash.flash_attn_func = flash_attn_func
    flash.flash_attn_qkvpacked_func = flash_attn_qkvpacked_func
    xformers.ops = ops
    flex = types.ModuleType("torch.nn.attention.flex_attention")
    flex.flex_attention = flex_attention
    for module in (xformers, ops, flash, flex):
        monkeypatch.setitem(sys.modules, module.__name__, module)


class Model(nn.Module):
    """2x3 patches and one layer of attention by a kernel; ``plain`` uses torch's."""

    def __init__(self, kind, **options):
        super().__init__()
        torch.manual_seed(3)
        self.patches = nn.Conv2d(3, 22, 4, stride=4)
        self.qkv = nn.Linear(22, 66)
        nn.init.normal_(self.qkv.weight, std=0.5)
        self.kind, self.options = kind, options

    def forward(self, images):
        x = self.patches(images).flatten(2).transpose(1, 2)
        q, k, v = self.qkv(x).unflatten(-1, (3, 2, 11)).unbind(2)  # [batch, token, head, width]
        if self.kind == "xformers":
            out = memory_efficient_attention(q, k, v, **self.options)
        elif self.kind == "packed flash":
            out = flash_attn_qkvpacked_func(torch.stack((q, k, v), 2), **self.options)
        elif self.kind == "flash":
            out = flash_attn_func(q, k, v, **self.options)
        else:
            q, k, v = (x.transpose(1, 2) for x in (q, k, v))
            if self.kind == "flex":
                out = flex_attention(q, k, v, **self.options).transpose(1, 2)
            else:
                out = F.scaled_dot_product_attention(q, k, v, **self.options).transpose(1, 2)
        return x + out.flatten(2)


def images():
    return torch.randn(2, 3, 8, 12, generator=torch.Generator().manual_seed(5))


@pytest.mark.parametrize("kind", ["xformers", "flash", "packed flash"])
@pytest.mark.usefixtures("libraries")
@pytest.mark.slow
def test_a_kernel_is_measured_as_the_same_attention_by_torch(kind):
    expected = ns.measure_model(Model("plain"), images(), metrics=("mad",))
    found = ns.measure_model(Model(kind), images(), metrics=("mad",))
    assert found.mad.values[0] == pytest.approx(expected.mad.values[0], abs=1e-6)
    assert found.layers[0].grid == Grid(2, 3)
    assert found.layers[0].proof_error < 1e-5
    assert memory_efficient_attention.__module__ == __name__  # names are put back


@pytest.mark.usefixtures("libraries")
def test_causal_flash_attention_has_its_mask():
    given = {"grid": Grid(2, 3), "num_prefix": 0, "metrics": ("mad",)}
    expected = ns.measure_model(Model("plain", is_causal=True), images(), **given)
    found = ns.measure_model(Model("flash", causal=True), images(), **given)
    assert found.mad.values[0] == pytest.approx(expected.mad.values[0], abs=1e-6)


@pytest.mark.usefixtures("libraries")
def test_forms_of_kernels_that_are_not_known_are_refused_by_name():
    with pytest.raises(UserError, match=r"flash-attention .* window.* scaled_dot_product"):
        ns.measure_model(Model("flash", window_size=(2, 2)), images())


class PackedAttention(nn.Module):
    """Attention by a function of flash-attention that nearsight cannot follow."""

    def forward(self, x):
        lengths = torch.tensor([0, x.shape[1]])
        rows = [flash_attn_varlen_func(y[:, None], y[:, None], y[:, None], lengths, lengths)
                for y in x]  # fmt: skip
        return torch.stack(rows).flatten(2)


@pytest.mark.usefixtures("libraries")
def test_a_function_that_is_not_known_is_refused_with_the_name_of_its_library():
    model = nn.Sequential(nn.Conv2d(3, 6, 4, stride=4), nn.Flatten(2), PackedAttention())
    with pytest.raises(UserError, match=r"\bPackedAttention\b.*\bscaled_dot_product_attention\b"):
        ns.measure_model(model, images(), metrics=("mad",))


def test_the_flex_attention_of_torch_itself_is_measured():
    from torch.nn.attention import flex_attention as home

    class Real(Model):
        def forward(self, images):
            x = self.patches(images).flatten(2).transpose(1, 2)
            q, k, v = (y.transpose(1, 2) for y in self.qkv(x).unflatten(-1, (3, 2, 11)).unbind(2))
            return x + home.flex_attention(q, k, v).transpose(1, 2).flatten(2)

    given = {"grid": Grid(2, 3), "num_prefix": 0, "metrics": ("mad",)}
    expected = ns.measure_model(Model("plain"), images(), **given)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it was not compiled
        found = ns.measure_model(Real("flex"), images(), **given)
    assert found.mad.values[0] == pytest.approx(expected.mad.values[0], abs=1e-6)


@pytest.mark.usefixtures("libraries")
def test_flex_attention_is_seen_and_score_mod_is_refused():
    seen = []
    with AttentionCapture(Model("flex"), lambda call: seen.append(call.sizes)) as capture:
        capture.model(images())
    assert seen == [(2, 2, 6, 6)]
    with pytest.raises(UserError, match=r"flex attention .*score_mod.* attn_mask"):
        ns.measure_model(Model("flex", score_mod=lambda score, *at: score), images())
