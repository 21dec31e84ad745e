"""The profile of a model, streamed, and what measure.json says of it."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from measure import reference_attention as slow
from scipy import stats
from torch import nn

import nearsight as ns
from nearsight.core import UserError
from nearsight.measure.capture.observation import check_model, image_batches
from nearsight.measure.folders.measure_contents import measurement
from nearsight.measure.metrics.estimates import Estimates
from nearsight.measure.profile.nulls import null_lines
from nearsight.measure.profile.profile import measure_model
from nearsight.measure.rows.unfold import BLOCK_SIZES
from nearsight.models.layers.grid import Grid
from nearsight.models.load.registry import create_model

GRID, NUM_IMAGES = Grid(3, 5), 23


def sharp_model():
    torch.manual_seed(3)
    model = create_model("mu", 7, image_size=(12, 20), patch_size=4, num_registers=1).eval()
    for block in model.blocks:
        torch.nn.init.normal_(block.attn.qkv.weight, std=0.4)
    return model


def images(count=NUM_IMAGES):
    return torch.randn(count, 3, 12, 20, generator=torch.Generator().manual_seed(2))


@pytest.mark.slow
def test_a_profile_equals_plain_loops_over_captured_attention():
    model, profile = sharp_model(), measure_model(sharp_model(), images().split(7))
    with ns.capture_attention(model) as captured:
        model(images())
    for layer, attention in enumerate(captured):
        for image in (0, 11, 22):
            for head in range(2):
                rows = slow.patch_rows(attention[image, head].tolist(), 2)
                found = [x.values[layer][image, head] for x in (profile.mad, profile.entropy)]
                wanted = [slow.distance(rows, 3, 5), slow.entropy(rows)]
                assert found == pytest.approx(wanted, abs=1e-5)


@pytest.mark.parametrize("batch_size", [1, 5, 23])
@pytest.mark.slow
def test_the_batch_size_changes_nothing(batch_size):
    model = sharp_model()
    one, other = (measure_model(model, images().split(size)) for size in (7, batch_size))
    for metric in ("mad", "entropy", "self_mass"):
        both = (getattr(x, metric).values for x in (one, other))
        for mine, yours in zip(*both, strict=True):
            assert mine == pytest.approx(yours, abs=1e-6)


@pytest.mark.slow
def test_the_order_of_the_images_changes_no_mean():
    model = sharp_model()
    forward = measurement(measure_model(model, images().split(5)))
    backward = measurement(measure_model(model, images().flip(0).split(5)))
    for one, other in zip(forward["layers"], backward["layers"], strict=True):
        for metric in ("mad", "entropy", "self_mass"):
            for part in ("mean", "low", "high", "sd"):
                assert one[metric][part] == pytest.approx(other[metric][part], abs=1e-6)


@pytest.mark.slow
def test_the_summary_is_of_the_layers_that_are_read_and_another_of_all():
    profile = measure_model(sharp_model(), images().split(5))
    assert profile.read_layers == [0]  # [CLS] is read, so that layer 2's patches are not
    found = measurement(profile)
    assert [layer["unread"] for layer in found["layers"]] == [False, True]
    for key, layers in (("summary", [1]), ("summary_of_all_layers", [1, 2])):
        summary = found[key]
        heads = np.concatenate([profile.mad.mean[i - 1] for i in layers]).tolist()
        assert summary["layers"] == layers
        smallest = summary["min_mad"]
        assert smallest["value"] == pytest.approx(min(heads), abs=1e-15)
        assert 2 * (smallest["layer"] - 1) + smallest["head"] - 1 == heads.index(min(heads))
        assert smallest["low"] < smallest["value"] < smallest["high"]
        assert summary["max_mad"]["value"] == pytest.approx(max(heads), abs=1e-15)
        assert summary["mean_mad"]["value"] == pytest.approx(sum(heads) / len(heads), abs=1e-15)
        assert len(summary["layer_mean_mad"]) == 2
        box = found["null"]["box_mad"]
        assert summary["heads_below_box"] == sum(head < box for head in heads)
    last = profile.mad.mean[1]
    assert found["summary"]["layer_mean_mad"][1]["value"] == pytest.approx(last.mean())
    assert found["layers"][1]["mad"]["mean"] == last.tolist()
    assert found["num_heads"] == [2, 2]


def test_a_summary_leaves_nothing_out_where_nothing_is_known():
    profile = measure_model(sharp_model(), images())
    unknown = replace(profile, layers=tuple(replace(x, unread=None) for x in profile.layers))
    found = measurement(unknown)
    assert found["summary"]["layers"] == [1, 2]
    assert "summary_of_all_layers" not in found
    assert found["summary"] == measurement(profile)["summary_of_all_layers"]


@pytest.mark.parametrize(("own", "kind"), [(0.5, "identity"), (0.49, "local")])
def test_a_head_below_the_box_is_an_identity_head_or_a_local_one(own, kind):
    profile = measure_model(sharp_model(), [images()])
    nearer = Estimates([profile.mad.values[0] * [0.01, 1.0], profile.mad.values[1]])
    mass = Estimates([np.full_like(x, own) for x in profile.self_mass.values])
    closer = replace(profile, metrics=profile.metrics | {"mad": nearer, "self_mass": mass})
    before, after = (measurement(x)["summary"] for x in (profile, closer))
    assert after["heads_below_box"] == before["heads_below_box"] + 1
    assert after[f"{kind}_heads"] == after["heads_below_box"]
    assert after["identity_heads"] + after["local_heads"] == after["heads_below_box"]


def test_null_lines_are_those_of_the_grid():
    lines = null_lines(Grid(8, 8))
    assert lines["uniform_mad"] == pytest.approx(0.4178, abs=5e-5)
    assert lines["box_mad"] == pytest.approx(0.1032, abs=5e-5)
    assert null_lines(GRID)["box_mad"] == pytest.approx(GRID.box_distance(), abs=1e-14)
    # 3x5: 4 corners with 4 neighbours in the box, 8 edges with 6, 3 inner patches with 9
    shares = [1 / 4] * 4 + [1 / 6] * 8 + [1 / 9] * 3
    assert null_lines(GRID)["box_self_mass"] == pytest.approx(sum(shares) / 15, abs=1e-14)
    entropies = -sum(np.log(shares)) / 15 / np.log(15)
    assert null_lines(GRID)["box_entropy"] == pytest.approx(entropies, abs=1e-10)


@pytest.mark.slow
def test_images_may_come_as_a_tensor_as_batches_or_as_a_loader_of_pairs():
    model = sharp_model()
    pairs = torch.utils.data.TensorDataset(images(), torch.zeros(NUM_IMAGES))
    loader = torch.utils.data.DataLoader(pairs, batch_size=7)
    ways = [images(), images().split(7), loader, [{"pixel_values": images()}]]
    found = [measure_model(model, way).mad.values[1] for way in ways]
    for other in found[1:]:
        assert other == pytest.approx(found[0], abs=1e-6)


@pytest.mark.parametrize("training", [True, False])
def test_the_model_is_left_in_the_mode_it_was_in(training):
    model = sharp_model().train(training)
    model.blocks[0].eval()
    measure_model(model, images())
    assert model.training == training
    assert not model.blocks[0].training


@pytest.mark.slow
def test_a_block_of_any_size_gives_the_same_numbers(monkeypatch):
    model, wanted = sharp_model(), measure_model(sharp_model(), images())
    for size in (15, 47, 301):  # one row, a few rows, a few heads or images at a time
        monkeypatch.setitem(BLOCK_SIZES, "cpu", size)
        found = measure_model(model, images())
        for metric in ("mad", "entropy", "self_mass", "radius_mass"):
            for mine, yours in zip(found.metrics[metric].values, wanted.metrics[metric].values):
                assert mine == pytest.approx(yours, abs=1e-6)


@pytest.mark.slow
def test_float32_agrees_with_float64_to_a_millionth():
    model = sharp_model()
    single = measure_model(model, images())
    double = measure_model(model.double(), images().double())
    for metric in ("mad", "entropy", "self_mass", "radius_mass"):
        for mine, yours in zip(single.metrics[metric].values, double.metrics[metric].values):
            assert mine == pytest.approx(yours, abs=2e-5)  # of which the model's own: 1e-5


def test_intervals_are_those_of_the_images():
    profile = measure_model(sharp_model(), images())
    values = profile.mad.values[1][:, 0]
    half = stats.t.ppf(0.975, NUM_IMAGES - 1) * values.std(ddof=1) / NUM_IMAGES**0.5
    assert profile.mad.low[1][0] == pytest.approx(values.mean() - half, abs=1e-9)
    assert profile.mad.high[1][0] == pytest.approx(values.mean() + half, abs=1e-9)


def test_nan_in_attention_names_the_layer_and_the_image():
    broken = images()
    broken[17, 0, 3, 5] = torch.nan
    with pytest.raises(UserError, match=r"\bNaN\b.*\blayer blocks\.0\.attn\b.*\bimage 17\b"):
        measure_model(sharp_model(), broken.split(7))


@pytest.mark.parametrize(
    "given", [torch.zeros(3, 12, 20), torch.zeros(2, 3, 12, 20, dtype=torch.uint8)]
)
def test_what_is_no_batch_of_normalised_images_is_refused(given):
    with pytest.raises(UserError, match=rf"\[n, 3, height, width\].*{given.dtype} .*\b3, 12, 20\]"):
        measure_model(sharp_model(), [given])


@pytest.mark.parametrize("given", [None, 3, "folder"])
def test_what_holds_no_images_is_refused(given):
    with pytest.raises(UserError, match=rf"\[n, 3, .*{given!r}.*\bmeasure_named"):
        list(image_batches(given, sharp_model()))


@pytest.mark.parametrize(
    ("given", "says"), [("nano", r"'nano'.*\bmeasure_named\b"), (None, r"\bNone\b")]
)
def test_what_is_no_model_is_refused(given, says):
    with pytest.raises(UserError, match=rf"\(torch\.nn\.Module\).*{says}"):
        check_model(given)


class EntryByEntry(nn.Module):
    """Attention whose weights and values are multiplied entry by entry and summed."""

    def __init__(self):
        super().__init__()
        self.patches = nn.Conv2d(3, 7, 4, stride=4)

    def forward(self, images):
        x = self.patches(images).flatten(2).mT
        weights = (x @ x.mT).softmax(-1)
        return (weights[..., None] * x[:, None]).sum(-2)


def test_attention_that_cannot_be_seen_is_not_called_absent():
    with pytest.raises(UserError, match=r"^EntryByEntry .*\bmatmul\b.*\bscaled_dot_product"):
        measure_model(EntryByEntry(), images())


def test_no_batches_are_refused():
    with pytest.raises(UserError, match=r"\bimages\b"):
        measure_model(sharp_model(), [])


def test_unknown_metrics_and_those_not_measured_are_named():
    with pytest.raises(UserError, match="'reach'"):
        measure_model(sharp_model(), images(), metrics=("mad", "reach"))
    profile = measure_model(sharp_model(), images(), metrics=("mad",))
    with pytest.raises(AttributeError, match=r"\bentropy\b.*metrics="):
        _ = profile.entropy
