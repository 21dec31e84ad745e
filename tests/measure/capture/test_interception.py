"""Capture sees what the model really computes, and changes nothing."""

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import nearsight as ns
from nearsight.core import UserError
from nearsight.measure.capture.interception import AttentionCapture
from nearsight.measure.layout.tokens import Layout
from nearsight.measure.rows.unfold import Buffers, RowBlock, Unfolded
from nearsight.models.layers.grid import Grid
from nearsight.models.load.registry import create_model

EVERYTHING = RowBlock(slice(None), slice(None), slice(None))


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


class Attending(nn.Module):
    """One call of attention of any form, so that capture has a module to watch."""

    def __init__(self, attend):
        super().__init__()
        self.attend = attend

    def forward(self, *tensors):
        return self.attend(*tensors)


def captured_weights(attend, *tensors):
    """The weights that capture sees in a call, [batch, head, query, key]."""
    calls, model = [], Attending(attend)
    with AttentionCapture(model, calls.append):
        output = model(*tensors)
    (call,) = calls
    tokens = [torch.arange(size)[None] for size in call.sizes[-2:]]
    grid = Grid(1, call.sizes[-2])
    layout = Layout(grid, *tokens, torch.zeros(call.sizes[-1], 2), "batch")
    return Unfolded(call, layout, Buffers()).weights(EVERYTHING)[:, 0], output


@pytest.mark.parametrize("build", [our_model, timm_model])
def test_captured_weights_times_values_are_the_layers_output(build):
    model = build()
    values, outputs = [], []
    for block in model.blocks:
        block.attn.proj.register_forward_pre_hook(lambda _, given: outputs.append(given[0]))
    with torch.no_grad(), AttentionCapture(model, lambda call: values.append(call.values)):
        model(images_for(model))
    with ns.capture_attention(model) as maps:
        model(images_for(model))
    for attention, value, output in zip(maps, values, outputs[: len(maps)], strict=True):
        assert attention.amax() > 0.5
        assert torch.allclose((attention @ value).transpose(1, 2).flatten(2), output, atol=1e-4)


@pytest.mark.parametrize("build", [our_model, timm_model])
def test_capture_leaves_logits_gradients_hooks_and_rng_as_they_were(build):
    model = build()
    images = images_for(model)

    def forward():
        model.zero_grad()
        logits = model(images)
        logits.square().sum().backward()
        return logits, [x.grad.clone() for x in model.parameters()]

    before = forward()
    state = torch.get_rng_state()
    with ns.capture_attention(model):
        during = forward()
    assert torch.equal(before[0], during[0])
    assert all(torch.equal(x, y) for x, y in zip(before[1], during[1], strict=True))
    assert torch.equal(state, torch.get_rng_state())
    assert not any(x._forward_hooks or x._forward_pre_hooks for x in model.modules())


def test_maps_are_those_of_the_last_forward():
    model = our_model()
    first, second = images_for(model).split([2, 3])
    with ns.capture_attention(model) as maps:
        model(first)
        model(second)
    assert [len(attention) for attention in maps] == [3, 3]


def test_a_fused_vit_of_timm_is_captured_as_its_unfused_softmax():
    model = timm_model(num_heads=3, reg_tokens=1).double()
    assert model.blocks[0].attn.fused_attn
    images = images_for(model).double()
    with ns.capture_attention(model) as maps:
        model(images)
    softmaxes = []
    for block in model.blocks:
        block.attn.fused_attn = False
        block.attn.attn_drop.register_forward_hook(lambda _, given, out: softmaxes.append(out))
    with torch.no_grad():
        model(images)
    for attention, softmax in zip(maps, softmaxes, strict=True):
        assert torch.allclose(attention, softmax, atol=1e-12)


@pytest.mark.parametrize("kind", ["boolean", "additive", "causal", "scale", "grouped"])
def test_masks_scales_and_groups_of_fused_attention_are_taken_over(kind):
    torch.manual_seed(13)
    queries, keys = torch.randn(2, 3, 5, 7), torch.randn(2, 3, 11, 7)
    values = torch.randn(2, 3, 11, 13)
    options = {
        "boolean": {"attn_mask": torch.rand(5, 11) > 0.3},
        "additive": {"attn_mask": torch.randn(2, 1, 5, 11)},
        "causal": {"is_causal": True},
        "scale": {"scale": 1.7},
        "grouped": {"enable_gqa": True},
    }[kind]
    if kind == "grouped":
        keys, values = keys[:, :1], values[:, :1]
    weights, output = captured_weights(
        lambda *given: F.scaled_dot_product_attention(*given, **options), queries, keys, values
    )
    assert torch.allclose(weights @ values, output, atol=1e-5)


def by_hand(logits):
    logits = logits - logits.amax(-1, keepdim=True)
    weights = torch.exp(logits) * (logits > -3)
    return torch.div(weights, weights.sum(-1, keepdim=True))


EXPLICIT = {
    "operator": lambda q, k, v: (q @ k.mT * 0.3).softmax(-1) @ v,
    "functions": lambda q, k, v: torch.matmul(F.softmax(torch.matmul(q, k.mT), dim=-1), v),
    "dropout and casts": lambda q, k, v: (
        F.dropout(torch.softmax(q @ k.mT, -1, dtype=torch.float64), 0.0).to(v.dtype) @ v
    ),
    "by hand": lambda q, k, v: ((weights := (q @ k.mT).exp()) / weights.sum(-1, keepdim=True)) @ v,
    "by hand, with a mask and the largest taken off": lambda q, k, v: by_hand(q @ k.mT) @ v,
    "by logarithms": lambda q, k, v: F.log_softmax(q @ k.mT, dim=-1).exp() @ v,
    "by normalize": lambda q, k, v: F.normalize((q @ k.mT).exp(), p=1, dim=-1) @ v,
    "cosine": lambda q, k, v: (
        (5.0 * F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).mT).softmax(dim=-1) @ v
    ),
    "folded heads": lambda q, k, v: torch.einsum(
        "bhij,bhjd->bhid", torch.softmax(q @ k.mT, dim=3), v
    ),
    "heads after tokens": lambda q, k, v: torch.einsum(
        "bhij,bjhd->bihd", (q @ k.mT).softmax(-1), v.transpose(1, 2)
    ).transpose(1, 2),
    "values on the left": lambda q, k, v: (
        (v.transpose(-2, -1) @ (q @ k.mT).softmax(-1).transpose(-2, -1)).mT
    ),
    "values on the left, by functions": lambda q, k, v: (
        torch.matmul(v.mT, F.dropout(F.softmax(torch.matmul(q, k.mT), dim=-1), 0.0).mT).mT
    ),
    "values on the left, by einsum": lambda q, k, v: torch.einsum(
        "bhjd,bhij->bhid", v, (q @ k.mT).softmax(-1)
    ),
    "weights transposed, by einsum": lambda q, k, v: (
        torch.einsum("...dj,...ji->...di", v.mT, (q @ k.mT).softmax(-1).mT).mT
    ),
}


@pytest.mark.parametrize("form", EXPLICIT)
def test_explicit_attention_is_seen_whoever_wrote_it(form):
    torch.manual_seed(17)
    q, k, v = torch.randn(2, 3, 5, 7), torch.randn(2, 3, 11, 7), torch.randn(2, 3, 11, 13)
    weights, output = captured_weights(EXPLICIT[form], q, k, v)
    assert torch.allclose(weights.sum(-1), torch.ones(2, 3, 5))
    assert torch.allclose(weights @ v, output, atol=1e-6)


@pytest.mark.parametrize("left", [False, True])
def test_attention_without_an_axis_of_heads_has_one_head(left):
    torch.manual_seed(17)
    q, k, v = torch.randn(2, 5, 7), torch.randn(2, 11, 7), torch.randn(2, 11, 13)

    def attend(q, k, v):
        weights = torch.bmm(q, k.mT).softmax(-1)
        return torch.bmm(v.mT, weights.mT).mT if left else torch.bmm(weights, v)

    weights, output = captured_weights(attend, q, k, v)
    assert weights.shape == (2, 1, 5, 11)
    assert torch.allclose(weights[:, 0], (q @ k.mT).softmax(-1), atol=1e-6)
    assert torch.allclose(weights[:, 0] @ v, output, atol=1e-6)


def test_values_on_the_left_of_shares_of_queries_are_no_attention():
    torch.manual_seed(17)
    q, k, v = torch.randn(2, 3, 5, 7), torch.randn(2, 3, 11, 7), torch.randn(2, 3, 11, 13)
    model, calls = Attending(lambda q, k, v: v.mT @ (k @ q.mT).softmax(-1)), []
    with AttentionCapture(model, calls.append):
        model(q, k, v)
    assert calls == []


def test_weights_changed_before_they_meet_values_on_the_left_are_refused():
    q, k, v = torch.randn(2, 3, 5, 7), torch.randn(2, 3, 11, 7), torch.randn(2, 3, 11, 13)
    model = Attending(lambda q, k, v: v.mT @ (3 * (q @ k.mT).softmax(-1)).mT)
    with (
        pytest.raises(UserError, match=r"\blayer Attending \(Attending\) .*\bright\b"),
        AttentionCapture(model, lambda call: None),
    ):
        model(q, k, v)


def test_an_einsum_that_sums_no_keys_is_refused():
    q, k, v = torch.randn(2, 3, 5, 7), torch.randn(2, 3, 11, 7), torch.randn(2, 3, 5, 13)
    model = Attending(lambda q, k, v: torch.einsum("bhij,bhid->bhijd", (q @ k.mT).softmax(-1), v))
    with (
        pytest.raises(UserError, match="'bhij,bhid->bhijd'"),
        AttentionCapture(model, lambda call: None),
    ):
        model(q, k, v)


class ValuesOnTheLeft(nn.Module):
    """2x3 patches of 4x4 pixels that all look at the first patch; values are multiplied first."""

    def __init__(self):
        super().__init__()
        self.patches = nn.Conv2d(3, 7, 4, stride=4)
        self.attn = Attending(self.attend)

    def attend(self, values):
        logits = torch.zeros(len(values), 6, 6)
        logits[..., 0] = 50.0
        return values @ logits.softmax(-1).transpose(-2, -1)

    def forward(self, images):
        return self.attn(self.patches(images).flatten(2)).mean(-1)


def test_the_distance_of_attention_with_values_on_the_left_is_the_one_by_hand():
    images = torch.randn(5, 3, 8, 12)
    profile = ns.measure_model(ValuesOnTheLeft(), images, grid=Grid(2, 3), num_prefix=0)
    by_hand = (0 + 1 + 2 + 1 + 2**0.5 + 5**0.5) / 6  # from each patch to the top left one
    diagonal = 5**0.5  # of the grid of 2x3
    assert profile.mad.mean[0] == pytest.approx([by_hand / diagonal], abs=1e-6)
    assert profile.layers[0].num_heads == 1
    assert profile.layers[0].proof_error < 1e-6


def test_the_output_with_values_on_the_left_can_be_changed():
    q, k, v = torch.randn(2, 5, 7), torch.randn(2, 11, 7), torch.randn(2, 11, 13)
    model = Attending(lambda q, k, v: v.mT @ (q @ k.mT).softmax(-1).mT)
    expected = model(q, k, v)
    with AttentionCapture(
        model, lambda call: None, change=lambda call: replace(call, output=2 * call.output)
    ):
        doubled = model(q, k, v)
    assert torch.equal(doubled, 2 * expected)


class FlattenHead(nn.Module):
    def __init__(self, num_features):
        super().__init__()
        self.answer = nn.Linear(num_features, 7)

    def forward(self, tokens):
        return self.answer(tokens.flatten(1))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["FlattenHead", "ScatterTokens", "PatternHead"])
def test_a_module_whose_name_only_contains_att_is_no_unseen_attention(name):
    model = our_model()
    renamed = type(name, (FlattenHead,), {})
    network = nn.Sequential(model, renamed(7)).eval()
    alone = ns.measure_model(model, images_for(model))
    followed = ns.measure_model(network, images_for(model))
    assert followed.mad.mean[1] == pytest.approx(alone.mad.mean[1], abs=1e-7)


@pytest.mark.parametrize("name", ["LinearAttention", "XAttnBlock", "attention_mixer", "SpatialAtt"])
def test_a_module_named_for_attention_in_which_none_was_seen_is_said(name):
    model = our_model()
    network = nn.Sequential(model, type(name, (FlattenHead,), {})(7)).eval()
    profile = ns.measure_model(network, images_for(model))
    reasons = dict(profile.skipped)
    assert reasons["1"].startswith("no softmax over keys was seen in it")
    alone = nn.Sequential(nn.Conv2d(3, 2, 32), type(name, (FlattenHead,), {})(2)).eval()
    with pytest.raises(UserError, match=rf"\({name}\) .*\bsoftmax over keys\b"):
        ns.measure_model(alone, torch.zeros(2, 3, 32, 32))


class Named(nn.Module):
    """A module that is named for attention and does what it is told to tokens [2, 5, 7]."""

    def __init__(self, what):
        super().__init__()
        self.what = what

    def forward(self, images):
        return self.what(images.flatten(1)[:, :35].unflatten(1, (5, 7)))


class NamedAttention(Named):
    pass


OTHER_SOFTMAXES = {
    "linear": (lambda x: x @ (x.softmax(1).mT @ x), "linear attention:"),
    "linear, by einsum": (
        lambda x: torch.einsum("bnd,bne->bde", x.softmax(dim=1), x), "linear attention:",
    ),
    "gate": (lambda x: x * x.mean(1).softmax(-1)[:, None], "scales features"),
    "one row for all": (
        lambda x: (x * x[..., :1].mT.softmax(-1).mT).sum(1), "scales features",
    ),
    "deformable": (
        lambda x: (
            F.grid_sample(x[:, None], x[:, None, :, :2].tanh(), align_corners=False)
            * x[:, None, None, :, 0].softmax(-1)
        ),
        "deformable attention:",
    ),
    "between images": (
        lambda x: (x[..., 0] @ x[..., 1].T).softmax(-1) @ x[..., 2], "the images of a batch",
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", OTHER_SOFTMAXES)
def test_a_softmax_that_weighs_no_keys_is_refused_with_the_true_reason(kind):
    what, reason = OTHER_SOFTMAXES[kind]
    with pytest.raises(UserError, match=rf"\(NamedAttention\) .*{reason}"):
        ns.measure_model(NamedAttention(what), torch.randn(2, 3, 8, 8))


@pytest.mark.parametrize("form", ["einsum", "matmul", "convolution"])
def test_mixed_heads_are_seen_whichever_way_they_are_mixed(form):
    """DeepViT and CaiT as vit-pytorch writes them, and two other ways."""
    torch.manual_seed(19)
    q, k, v = torch.randn(2, 3, 5, 7), torch.randn(2, 3, 11, 7), torch.randn(2, 3, 11, 13)
    mixing = torch.randn(3, 3)

    def attend(q, k, v):
        weights = (q @ k.mT).softmax(-1)
        if form == "einsum":
            weights = torch.einsum("b h i j, h g -> b g i j", weights, mixing)
        elif form == "matmul":
            weights = (weights.permute(0, 2, 3, 1) @ mixing).permute(0, 3, 1, 2)
        else:
            weights = F.conv2d(weights, mixing.T[..., None, None])
        return torch.einsum("b h i j, b h j d -> b h i d", weights, v)

    calls = []
    with AttentionCapture(Attending(attend), calls.append) as capture:
        output = capture.model(q, k, v)
    (call,) = calls
    assert torch.allclose(call.weights_made, (q @ k.mT).softmax(-1))
    assert torch.allclose(call.multiplied @ v, output, atol=1e-5)


def test_rows_that_are_mixed_after_the_softmax_are_shown_before_the_mixing():
    torch.manual_seed(19)
    q, k, v = torch.randn(2, 3, 5, 7), torch.randn(2, 3, 11, 7), torch.randn(2, 3, 11, 13)
    mixing = torch.randn(3, 3)
    expected = (q @ k.mT).softmax(-1)

    def talking_heads(q, k, v):
        rows = (q @ k.mT).softmax(-1).permute(0, 2, 3, 1)
        return F.linear(rows, mixing).permute(0, 3, 1, 2) @ v

    weights, _ = captured_weights(talking_heads, q, k, v)
    assert torch.allclose(weights, expected, atol=1e-6)


def test_gated_rows_that_still_sum_to_one_are_shown_after_the_gate():
    torch.manual_seed(23)
    q, k, v = torch.randn(2, 3, 5, 7), torch.randn(2, 3, 11, 7), torch.randn(2, 3, 11, 13)
    positions = torch.randn(5, 11).softmax(-1)

    def gated(q, k, v):
        return (0.25 * (q @ k.mT).softmax(-1) + 0.75 * positions) @ v

    weights, _ = captured_weights(gated, q, k, v)
    assert torch.allclose(weights, 0.25 * (q @ k.mT).softmax(-1) + 0.75 * positions, atol=1e-6)


@pytest.mark.parametrize("need_weights", [True, False])
def test_torchs_multi_head_attention_is_seen_past_its_fast_path(need_weights):
    torch.manual_seed(29)
    layer = nn.MultiheadAttention(12, 3, batch_first=True).eval()
    tokens, calls = torch.randn(2, 7, 12), []
    with torch.no_grad():
        expected = layer(tokens, tokens, tokens, average_attn_weights=False)[1]
        with AttentionCapture(layer, calls.append):
            layer(tokens, tokens, tokens, need_weights=need_weights)
    (call,) = calls
    assert call.sizes == (2, 3, 7, 7)
    grid = Grid(1, 7)
    layout = Layout(grid, torch.arange(7)[None], torch.arange(7)[None], grid.coordinates())
    weights = Unfolded(call, layout, Buffers()).weights(EVERYTHING)[:, 0]
    assert torch.allclose(weights, expected, atol=1e-6)


def test_a_whole_encoder_layer_of_torch_is_seen_past_its_fast_path():
    torch.manual_seed(29)
    layer = nn.TransformerEncoderLayer(12, 3, 24, batch_first=True).eval()
    tokens, calls = torch.randn(2, 7, 12), []
    with torch.no_grad():
        expected = layer(tokens)
        with AttentionCapture(layer, calls.append):
            output = layer(tokens)
    assert torch.allclose(output, expected, atol=1e-6)
    assert [(call.name, call.sizes) for call in calls] == [("self_attn", (2, 3, 7, 7))]


def test_the_function_behind_torchs_multi_head_attention_is_seen_when_called_directly():
    torch.manual_seed(29)
    layer = nn.MultiheadAttention(12, 3).eval()
    tokens, calls = torch.randn(7, 2, 12), []  # [token, image, width]

    def attend(x):
        return F.multi_head_attention_forward(
            x, x, x, 12, 3, layer.in_proj_weight, layer.in_proj_bias, None, None, False, 0.0,
            layer.out_proj.weight, layer.out_proj.bias, training=False, need_weights=False,
        )[0]  # fmt: skip

    model = Attending(attend)
    expected = model(tokens)
    with AttentionCapture(model, calls.append):
        output = model(tokens)
    assert torch.equal(output, expected)
    (call,) = calls
    assert call.sizes == (2, 3, 7, 7)
    weights = (call.queries @ call.keys.mT * call.scale).softmax(-1)
    assert torch.allclose(weights @ call.values, call.output, atol=1e-6)


def test_a_softmax_that_meets_no_values_is_no_attention():
    model = Attending(lambda x: x.softmax(-1).sum() + (x @ x.mT).sum())
    calls = []
    with AttentionCapture(model, calls.append):
        model(torch.randn(2, 3, 5, 5))
    assert calls == []


def test_half_precision_attention_is_recomputed_in_float32():
    tokens = torch.randn(2, 3, 5, 7, dtype=torch.bfloat16)
    weights, _ = captured_weights(F.scaled_dot_product_attention, tokens, tokens, tokens)
    wide = tokens.float()
    expected = (wide @ wide.mT * 7**-0.5).softmax(-1)
    assert torch.allclose(weights, expected, atol=1e-6)


def test_a_block_without_a_forward_is_refused():
    with (
        pytest.raises(UserError, match="inside the `with capture_attention"),
        ns.capture_attention(our_model()),
    ):
        pass
