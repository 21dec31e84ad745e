"""Attention: fused = explicit = plain loops, and what the explicit kernel must keep working."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode

from nearsight.core import UserError
from nearsight.models.layers import attention, explicit
from nearsight.models.layers.attention import (
    SelfAttention,
    attend,
    attention_kernel,
    attention_weights,
)
from nearsight.models.layers.explicit import explicit_attention, split_heads

CPU = torch.device("cpu")


def tokens_of(*shape: int, dtype: torch.dtype = torch.float64, seed: int = 0) -> list[Tensor]:
    """Random queries, keys and values that want a gradient."""
    source = torch.Generator().manual_seed(seed)
    made = [torch.randn(shape, dtype=dtype, generator=source) for _ in range(3)]
    return [x.requires_grad_() for x in made]


def loop_attention(q: Tensor, k: Tensor, v: Tensor, scale: float) -> Tensor:
    """One image and head, one number at a time."""
    out = torch.zeros(len(q), v.shape[1], dtype=torch.float64)
    for i in range(len(q)):
        scores = [math.exp(scale * float(q[i] @ k[j])) for j in range(len(k))]
        for j in range(len(k)):
            out[i] += scores[j] / sum(scores) * v[j]
    return out


def attend_with(kernel: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attention, "attention_kernel", lambda *args, **kwargs: kernel)


@pytest.mark.parametrize("kernel", ["explicit", "fused"])
def test_attend_equals_plain_loops(kernel: str, monkeypatch: pytest.MonkeyPatch):
    attend_with(kernel, monkeypatch)
    q, k, v = tokens_of(2, 3, 7, 5)
    out = attend(q, k, v, 0.3)
    for image in range(2):
        for head in range(3):
            expected = loop_attention(*(x.detach()[image, head] for x in (q, k, v)), scale=0.3)
            torch.testing.assert_close(out[image, head].detach(), expected)


@pytest.mark.parametrize("kernel", ["explicit", "fused"])
def test_weights_times_values_are_attends_output(kernel: str, monkeypatch: pytest.MonkeyPatch):
    attend_with(kernel, monkeypatch)
    q, k, v = tokens_of(3, 2, 11, 7)
    weights = attention_weights(q, k, 0.2)
    torch.testing.assert_close(weights.sum(-1), torch.ones(3, 2, 11, dtype=torch.float64))
    torch.testing.assert_close(weights @ v, attend(q, k, v, 0.2))


def test_explicit_and_fused_gradients_agree_with_more_pieces_than_one(monkeypatch):
    monkeypatch.setattr(explicit, "PIECE", 7 * 13 * 13)  # 7 heads at a time
    q, k, v = tokens_of(3, 5, 13, 11)
    upstream = torch.randn(q.shape, dtype=q.dtype, generator=torch.Generator().manual_seed(1))
    by_hand = torch.autograd.grad(explicit_attention(q, k, v, 0.3), (q, k, v), upstream)
    plain = torch.autograd.grad(attention_weights(q, k, 0.3) @ v, (q, k, v), upstream)
    fused = F.scaled_dot_product_attention(q, k, v, scale=0.3)
    for one, two, three in zip(
        by_hand, plain, torch.autograd.grad(fused, (q, k, v), upstream), strict=True
    ):
        torch.testing.assert_close(one, two)
        torch.testing.assert_close(one, three)


@pytest.mark.slow
def test_the_hand_written_gradients_pass_gradcheck():
    q, k, v = tokens_of(2, 3, 5, 2)
    assert torch.autograd.gradcheck(lambda *x: explicit_attention(*x, 0.7), (q, k, v))
    qkv = torch.randn(2, 5, 3, 7, 2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(split_heads, (qkv,))


@pytest.mark.slow
def test_other_keys_than_queries_are_attended_to_with_the_right_gradients():
    q, k, v = tokens_of(2, 3, 5, 7)[0], *tokens_of(2, 3, 11, 7, seed=1)[:2]
    assert torch.autograd.gradcheck(lambda *x: explicit_attention(*x, 0.7), (q, k, v))
    torch.testing.assert_close(explicit_attention(q, k, v, 0.7), attention_weights(q, k, 0.7) @ v)


def test_scores_in_the_thousands_stay_finite_in_value_and_gradient():
    q, k, v = tokens_of(1, 2, 7, 3, dtype=torch.float32)
    out = explicit_attention(q * 300, k * 300, v, 1.0)
    grads = torch.autograd.grad(out.sum(), (q, k, v))
    assert all(x.isfinite().all() for x in (out, *grads))


def test_split_heads_equals_permute_and_unbind():
    qkv = torch.randn(2, 5, 3, 7, 11, requires_grad=True)
    plain = qkv.permute(2, 0, 3, 1, 4).unbind(0)
    upstream = [torch.randn(2, 7, 5, 11) for _ in range(3)]
    for one, two in zip(split_heads(qkv), plain, strict=True):
        assert one.equal(two)
        assert one.is_contiguous()
    (ours,) = torch.autograd.grad(split_heads(qkv), qkv, upstream)
    (theirs,) = torch.autograd.grad(plain, qkv, upstream)
    assert ours.equal(theirs)


def test_a_second_derivative_is_refused_in_words():
    q, k, v = tokens_of(1, 2, 3, 5)
    with pytest.raises(RuntimeError, match=r"create_graph=True\b.*attention_weights\(q, k"):
        torch.autograd.grad(explicit_attention(q, k, v, 0.5).sum(), q, create_graph=True)


def test_the_rule_takes_explicit_only_for_short_cpu_training_in_full_precision():
    assert attention_kernel(65, CPU, torch.float32, True) == "explicit"
    assert attention_kernel(65, CPU, torch.float64, True) == "explicit"
    assert attention_kernel(65, CPU, torch.float32, False) == "fused"
    assert attention_kernel(257, CPU, torch.float32, True) == "fused"
    assert attention_kernel(65, torch.device("cuda"), torch.float32, True) == "fused"
    assert attention_kernel(65, CPU, torch.bfloat16, True) == "fused"
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert attention_kernel(65, CPU, torch.float32, True) == "fused"


def test_attend_follows_the_rule_with_and_without_gradients(monkeypatch: pytest.MonkeyPatch):
    taken: list[str] = []
    explicit = attention.explicit_attention
    monkeypatch.setattr(
        attention, "explicit_attention", lambda *x: (taken.append("explicit"), explicit(*x))[1]
    )
    q, k, v = tokens_of(2, 3, 7, 5)
    attend(q, k, v, 0.5)
    assert taken == ["explicit"]
    with torch.no_grad():
        attend(q, k, v, 0.5)
    attend(q.detach(), k.detach(), v.detach(), 0.5)
    assert taken == ["explicit"]


class Watching(TorchFunctionMode):
    """Keeps what ``attend`` was given and gave."""

    def __init__(self) -> None:
        self.seen: list[tuple[tuple[Any, ...], Tensor]] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        if func is attend:
            self.seen.append((args, out))
        return out


@pytest.mark.parametrize("training", [True, False])
def test_a_function_mode_sees_attend_and_changes_nothing(training: bool):
    layer = SelfAttention(21, 3).double()
    x = torch.randn(2, 5, 21, dtype=torch.float64)
    with torch.set_grad_enabled(training):
        plain = layer(x)
        with Watching() as watching:
            watched = layer(x)
    assert plain.equal(watched)
    ((q, k, v, scale, *_), out), *others = watching.seen
    assert not others
    assert q.shape == (2, 3, 5, 7)
    torch.testing.assert_close(attention_weights(q, k, scale) @ v, out)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_autocast_gives_half_precision_outputs_and_full_precision_gradients(dtype: torch.dtype):
    layer = SelfAttention(22, 2)
    x = torch.randn(3, 7, 22)
    exact = layer(x)
    with torch.autocast("cpu", dtype=dtype):
        out = layer(x)
    assert out.dtype == dtype
    torch.testing.assert_close(out.float(), exact, atol=0.02, rtol=0.02)
    out.float().square().sum().backward()
    rounded = layer.qkv.weight.grad.clone()
    layer.zero_grad()
    exact.square().sum().backward()
    error = (rounded - layer.qkv.weight.grad).norm() / layer.qkv.weight.grad.norm()
    assert rounded.dtype == torch.float32
    assert error < 0.03


def test_a_width_that_the_heads_do_not_divide_is_refused():
    with pytest.raises(UserError, match=r"\b22\b.*\b3 heads\b.*\bnum_heads\b"):
        SelfAttention(22, 3)
