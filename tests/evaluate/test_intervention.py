"""Heads made to look elsewhere: only the rows of their patches change, by the rule."""

import pytest
import torch
from measure.capture.test_interception import our_model, timm_model
from measure.toy_models import images, plain, pooled, sharpened, windows
from torch import nn

from nearsight.core import UserError
from nearsight.evaluate.intervention import (
    Intervention,
    MeanAttention,
    keep_only_keys,
    mean_map_rule,
    window_rule,
)
from nearsight.measure.capture.interception import AttentionCapture
from nearsight.measure.layout.families import layout_of
from nearsight.measure.rows.captured import on_the_image
from nearsight.measure.rows.proof import prove
from nearsight.measure.rows.unfold import Buffers, Unfolded
from nearsight.models.layers.grid import Grid
from nearsight.models.load.registry import create_model


def locat():
    torch.manual_seed(5)
    return sharpened(create_model("mu_locat", 7, image_size=(12, 20), patch_size=4))


def convit():
    torch.manual_seed(5)
    model = create_model("mu_convit", 7, image_size=(12, 20), patch_size=4)
    for block in model.blocks:
        if hasattr(block.attn, "qk"):
            nn.init.normal_(block.attn.qk.weight, std=0.5)
    return sharpened(model)


def timm_convit():
    """Explicit attention, gated before it meets the values; 4x4 patches."""
    torch.manual_seed(5)
    return create_model(
        "timm/convit_tiny", 7, image_size=(64, 64), embed_dim=20, depth=3, num_heads=4,
        local_up_to_layer=2,
    ).eval()  # fmt: skip


class MultiHead(nn.Module):
    """torch's own multi-head attention, which folds heads into the batch: 3x5 patches."""

    grid, num_prefix = Grid(3, 5), 0

    def __init__(self):
        super().__init__()
        torch.manual_seed(5)
        self.embed = nn.Conv2d(3, 12, 4, 4)
        self.attention = nn.MultiheadAttention(12, 3, batch_first=True)
        nn.init.normal_(self.attention.in_proj_weight, std=0.7)

    def forward(self, x):
        x = self.embed(x).flatten(2).mT
        return self.attention(x, x, x, average_attn_weights=False)[0].mean(1)


BUILDS = [our_model, timm_model, plain, locat, convit, timm_convit, MultiHead]


def images_for(model, count=5):
    given = {"VisionTransformer": (48, 80), "ConVit": (64, 64)}
    timm = type(model).__module__.startswith("timm")
    return images(*(given[type(model).__name__] if timm else (12, 20)), count)


def clean(model, batch):
    """Logits, attention on the image by layer's name, and mean attention."""
    mean, maps = MeanAttention(), {}
    logits = forward(model, batch, consumer=mean)
    forward(model, batch, consumer=lambda call: maps.update({call.name: attention_of(call)}))
    return logits, maps, mean.layers(len(batch))


def attention_of(call):
    """The attention of a call, proved against its output; None where there is none of patches."""
    layout = layout_of(call)
    if not hasattr(layout, "grid"):
        return None
    tensors = Unfolded(call, layout, Buffers())
    prove(call, tensors)
    return on_the_image(tensors, layout).clone()


def forward(model, batch, consumer=lambda call: None, change=None):
    with torch.no_grad(), AttentionCapture(model, consumer, change):
        return model(batch)


def every_head(layers):
    return {name: range(len(layer.weights)) for name, layer in layers.items()}


def test_a_window_holds_the_patches_that_loops_find():
    grid, side = Grid(5, 7), 3
    found = grid.window(side)
    for query in range(35):
        for key in range(35):
            down, right = abs(query // 7 - key // 7), abs(query % 7 - key % 7)
            assert found[query, key] == (down <= 1 and right <= 1)
    assert torch.equal(grid.window(1), torch.eye(35, dtype=torch.bool))
    assert grid.window(13).all()
    assert not grid.window(11).all()


@pytest.mark.parametrize("side", [-1, 0, 2])
def test_a_window_without_a_middle_is_refused(side):
    with pytest.raises(UserError, match=rf"\b1, 3, 5\b.*\s{side}$"):
        Grid(3, 5).window(side)


def test_what_is_taken_from_a_row_goes_to_the_rest_in_proportion():
    rows = torch.tensor([[0.1, 0.3, 0.4], [0.2, 0.2, 0.5], [0.0, 0.0, 0.6]])
    allowed = torch.tensor([[True, True, False], [False, False, False], [True, True, False]])
    expected = torch.tensor([[0.2, 0.6, 0.0], [0.2, 0.2, 0.5], [0.3, 0.3, 0.0]])
    assert torch.allclose(keep_only_keys(rows, allowed), expected)


@pytest.mark.parametrize("build", BUILDS)
def test_a_window_over_the_whole_grid_changes_nothing(build):
    model = build()
    batch = images_for(model)
    logits, _, layers = clean(model, batch)
    change = Intervention(every_head(layers), window_rule("inside", 9, layers))
    assert torch.allclose(forward(model, batch, change=change), logits, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("build", BUILDS)
def test_the_mean_over_identical_images_changes_nothing_and_over_others_something(build):
    model = build()
    batch = images_for(model)
    alike = batch[:1].expand_as(batch)
    logits, _, layers = clean(model, alike)
    change = Intervention(every_head(layers), mean_map_rule(layers))
    assert torch.allclose(forward(model, alike, change=change), logits, atol=1e-5)
    assert not torch.allclose(forward(model, batch, change=change), clean(model, batch)[0], 0.01)


@pytest.mark.slow
@pytest.mark.parametrize("build", BUILDS)
@pytest.mark.parametrize("where", ["inside", "outside"])
def test_capture_shows_rows_that_look_where_they_may_and_nothing_else_changed(build, where):
    model = build()
    batch = images_for(model)
    logits, maps, layers = clean(model, batch)
    name, layer = next(iter(layers.items()))
    near, first, chosen = layer.grid.window(3), layer.num_prefix, 1
    allowed = near if where == "inside" else ~near
    seen = {}
    change = Intervention({name: [chosen]}, window_rule(where, 3, layers))
    changed = forward(
        model, batch, lambda call: seen.update({call.name: attention_of(call)}), change
    )
    before, after = maps[name], seen[name]
    others = [head for head in range(before.shape[1]) if head != chosen]
    assert torch.allclose(before[:, others], after[:, others], atol=1e-6)
    assert torch.allclose(before[:, :, :first], after[:, :, :first], atol=1e-6)
    assert torch.allclose(before[..., :first], after[..., :first], atol=1e-6)
    patches = after[:, chosen, first:, first:]
    assert (patches[:, ~allowed] == 0).all()
    assert torch.allclose(after.sum(-1), torch.ones(()), atol=1e-5)
    for query in range(layer.grid.num_patches):
        row = before[:, chosen, first + query, first:]
        kept = row * allowed[query]
        expected = kept / kept.sum(-1, keepdim=True) * row.sum(-1, keepdim=True)
        assert torch.allclose(patches[:, query], expected, atol=1e-5)
    assert not torch.allclose(changed, logits, 0.001)


@pytest.mark.slow
@pytest.mark.parametrize("build", [our_model, timm_model])
def test_the_next_module_gets_what_the_changed_rows_make_of_the_values(build):
    model = build()
    batch = images_for(model)
    _, _, layers = clean(model, batch)
    calls, inputs = [], []
    hook = model.blocks[1].attn.proj.register_forward_pre_hook(lambda _, x: inputs.append(x[0]))
    change = Intervention({"blocks.1.attn": [0]}, mean_map_rule(layers))
    forward(model, batch, calls.append, change)
    hook.remove()
    mean, values = layers["blocks.1.attn"].weights[0].float(), calls[1].values[:, 0]
    first = layers["blocks.1.attn"].num_prefix
    width = values.shape[-1]
    assert torch.allclose(inputs[0][:, first:, :width], (mean @ values)[:, first:], atol=1e-5)


@pytest.mark.slow
def test_a_head_that_the_projection_ignores_can_look_anywhere():
    model = our_model()
    batch = images_for(model)
    attention = model.blocks[0].attn
    with torch.no_grad():
        attention.proj.weight[:, : attention.head_dim] = 0
    logits, _, layers = clean(model, batch)
    for head, same in ((0, True), (1, False)):
        change = Intervention({"blocks.0.attn": [head]}, window_rule("outside", 3, layers))
        assert torch.equal(forward(model, batch, change=change), logits) == same


def test_the_share_inside_a_window_is_that_of_the_measured_mass():
    model = plain()
    batch = images_for(model)
    _, maps, layers = clean(model, batch)
    name, layer = next(iter(layers.items()))
    patches = maps[name][:, :, 2:, 2:].double().mean(0)
    for head in range(len(patches)):
        near = sum(
            float(patches[head, query, key])
            for query in range(15)
            for key in range(15)
            if abs(query // 5 - key // 5) <= 1 and abs(query % 5 - key % 5) <= 1
        )
        expected = near / float(patches[head].sum())
        assert layer.inside(3)[head].item() == pytest.approx(expected)


def cait():
    torch.manual_seed(5)
    return create_model("cait_xxs24_224", 3, image_size=(48, 48), depth=2).eval()


@pytest.mark.parametrize(
    ("build", "size", "reason"),
    [
        (windows, (20, 28), "within windows"),
        (pooled, (24, 40), "keys are pooled"),
        (cait, (48, 48), "mixes its heads"),
    ],
)
def test_attention_whose_rows_cannot_be_changed_is_refused(build, size, reason):
    with pytest.raises(UserError, match=rf"\blayer \S+attn\b.*{reason}"):
        forward(build(), images(*size, 2), consumer=MeanAttention())


def test_a_layer_that_is_called_twice_counts_as_two():
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = our_model()

        def forward(self, x):
            return self.inner(x) + self.inner(x)

    mean, model = MeanAttention(), Twice()
    forward(model, images(12, 20, 5), consumer=mean)
    found = mean.layers(5)
    firsts = [name for name in found if not name.endswith("[1]")]
    assert sorted(found) == sorted([*firsts, *(f"{name}[1]" for name in firsts)])
    for name in firsts:
        assert found[name].inside(3).tolist() == found[f"{name}[1]"].inside(3).tolist()
    with pytest.raises(UserError, match="5 times for 4 images"):
        mean.layers(4)
