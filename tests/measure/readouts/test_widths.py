"""What GAug learned, read out while a model runs: hand-solved widths, and plain lists of them."""

import json
import math

import numpy as np
import pytest
import torch
from measure.toy_models import images, plain, windows
from torch import nn

import nearsight as ns
from nearsight.core import UserError
from nearsight.measure.folders.measure_contents import measurement
from nearsight.measure.profile.profile import measure_model
from nearsight.measure.readouts import gaussian_widths
from nearsight.models.layers.grid import Grid
from nearsight.models.load.registry import create_model
from nearsight.models.parts.distribution import PERCENTILES, Distribution
from nearsight.models.parts.locat import WidthReadOut
from nearsight.models.parts.locat.gaussian import Gaussian
from nearsight.models.parts.locat.locat import add_locat
from nearsight.protocol import GaussianSettings


def with_gaussians(model, variances, strength, largest):
    """The model with the same widths everywhere: one variance per axis, and one strength."""
    for gaussian in (x for x in model.modules() if isinstance(x, Gaussian)):
        shares = torch.tensor(variances) / largest
        raw = (shares / (1 - shares)).log() + math.log(largest - 1)
        for linear, bias in (
            (gaussian.log_var, raw),
            (gaussian.log_alpha, torch.tensor([math.log(math.expm1(strength))])),
        ):
            nn.init.zeros_(linear.weight)
            linear.bias.data = bias
    return model


def varied(model):
    """Widths and strengths that differ from patch to patch."""
    torch.manual_seed(7)
    for gaussian in (x for x in model.modules() if isinstance(x, Gaussian)):
        nn.init.normal_(gaussian.log_var.weight, std=0.5)
        nn.init.normal_(gaussian.log_alpha.weight, std=0.2)
        nn.init.zeros_(gaussian.log_alpha.bias)
    return model.eval()


@pytest.mark.slow
def test_known_widths_and_strengths_are_read_out():
    model = with_gaussians(add_locat(plain()), (4.0, 9.0), 0.5, largest=25.0)  # on 3x5 patches
    first, second = gaussian_widths(model, images(12, 20))
    assert (first.name, second.name) == ("blocks.0.attn", "blocks.1.attn")
    assert first.grid == Grid(3, 5)
    assert first.largest == pytest.approx(5)
    assert first.deviation.mean == pytest.approx(2.5, rel=1e-5)  # of 2 along rows, 3 along columns
    assert first.deviation.percentiles[0] == pytest.approx(2, rel=1e-5)
    assert first.deviation.percentiles[4] == pytest.approx(3, rel=1e-5)
    assert first.strength.percentiles == pytest.approx([0.5] * 5, rel=1e-5)
    assert first.strength.interval == pytest.approx((0.5, 0.5), rel=1e-5)
    assert first.near_bounds == (0, 0)


@pytest.mark.parametrize(
    ("deviation", "near"), [(0.24, (1, 0)), (0.26, (0, 0)), (4.74, (0, 0)), (4.76, (0, 1))]
)
def test_near_a_bound_is_within_a_twentieth_of_the_largest_deviation(deviation, near):
    model = with_gaussians(add_locat(plain()), (deviation**2,) * 2, 1.0, largest=25.0)
    assert gaussian_widths(model, images(12, 20))[1].near_bounds == near


@pytest.mark.slow
@pytest.mark.parametrize("batch_size", [2, 7])
def test_streamed_percentiles_are_those_of_all_numbers(batch_size):
    model, given = varied(add_locat(plain())), images(12, 20)
    seen = []
    gaussian = model.blocks[1].attn.gaug
    handle = gaussian.register_forward_pre_hook(lambda x, args: seen.append(x.widths(*args)))
    with torch.no_grad():
        model(given)
    handle.remove()
    (variance, strength), (_, layer) = seen[0], gaussian_widths(model, given.split(batch_size))
    for found, values in ((layer.deviation, variance.sqrt()), (layer.strength, strength)):
        numbers = values.double().numpy()
        assert found.counts.sum() == numbers.size
        wanted = np.percentile(numbers, PERCENTILES, method="inverted_cdf").tolist()
        assert found.percentiles == pytest.approx(wanted, rel=0.005)
        per_image = numbers.reshape(7, -1).mean(1)
        assert found.image_means == pytest.approx(per_image, rel=1e-5)
        half = 2.446912 * per_image.std(ddof=1) / math.sqrt(7)  # t with 6 degrees of freedom
        low, high = per_image.mean() - half, per_image.mean() + half
        assert found.interval == pytest.approx((low, high), rel=1e-5)
    deviations = variance.sqrt()
    shares = [float((deviations < 0.25).float().mean()), float((deviations > 4.75).float().mean())]
    assert layer.near_bounds == pytest.approx(tuple(shares))
    assert 0 < shares[0] < 1


def test_numbers_beyond_the_histogram_keep_their_mean_and_order():
    found = Distribution()
    found.add(torch.tensor([[1e-9, 1e-9, 1.0, 1e9, 1e9], [1e-9, 1e-9, 1.0, 1e9, 1e9]]))
    assert found.mean == pytest.approx(4e8)
    low, *_, high = found.percentiles
    assert 1e-9 <= low <= 1.01e-4
    assert 9.9e3 <= high <= 1e9
    assert found.percentiles[2] == pytest.approx(1, rel=0.005)


@pytest.mark.slow
def test_padding_of_a_window_does_not_count():
    model = varied(add_locat(windows(), refine=False))  # 5x7 patches, windows padded to 6x9
    first, shifted = gaussian_widths(model, images(20, 28))
    for layer in (first, shifted):
        assert layer.grid == Grid(3, 3)
        assert layer.largest == pytest.approx(3)
        assert layer.strength.counts.sum() == 7 * 3 * 35
        assert layer.deviation.counts.sum() == 7 * 3 * 35 * 2


@pytest.mark.slow
def test_the_numbers_of_a_windows_images_are_kept_apart():
    model, given = varied(add_locat(windows(), refine=False)), images(20, 28)
    together = gaussian_widths(model, given)[0].strength.image_means
    alone = [gaussian_widths(model, x)[0].strength.mean for x in given.split(1)]
    assert together == pytest.approx(alone, rel=1e-5)
    assert np.ptp(alone) > 1e-3


def test_at_another_resolution_bound_and_widths_grow_with_the_shorter_side():
    model = create_model(
        "vit_tiny_patch16_224", 7, image_size=(48, 80), depth=2, embed_dim=66, dynamic_img_size=True
    )
    model = with_gaussians(add_locat(model), (24.999999, 24.999999), 1.0, largest=25.0)
    for gaussian in (x for x in model.modules() if isinstance(x, Gaussian)):
        nn.init.constant_(gaussian.log_var.bias, 99.0)  # as wide as can be
    layer = gaussian_widths(model, images(96, 112))[0]  # 6x7 patches instead of 3x5
    assert layer.grid == Grid(6, 7)
    assert layer.largest == pytest.approx(math.sqrt(25 * 6 / 3))
    assert layer.deviation.percentiles == pytest.approx([layer.largest] * 5)
    assert layer.near_bounds == (0, 1)


@pytest.mark.slow
def test_fixed_widths_and_strengths_have_no_bounds():
    settings = GaussianSettings(width=1.5, strength="one")
    model = add_locat(plain(), gaussian=settings, published_start=True)
    layer = gaussian_widths(model, images(12, 20))[0]
    assert layer.near_bounds is None
    assert layer.deviation.percentiles == [1.5] * 5
    assert layer.strength.percentiles == [1.0] * 5
    written = measurement(measure_model(model, images(12, 20)))["layers"][0]["gaussian"]
    assert written["largest"] is None
    assert written["deviation"]["mean"] == 1.5


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    ["locatvit_tiny", "locatvit_tiny_rope_mixed", "locatjumbo_tiny", "locatswin_tiny", "mu_locat"],
)
def test_every_family_is_read_out_at_the_published_start(name):
    options = {"image_size": (64, 96)}
    if name == "locatswin_tiny":
        options |= {"depths": (1, 1), "num_heads": (3, 6), "window_size": 3}
    elif name != "mu_locat":
        options["depth"] = 2
    model = create_model(name, num_classes=5, **options)
    layers = gaussian_widths(model, images(64, 96, count=2))
    assert len(layers) == 2
    for layer in layers:
        assert layer.deviation.mean == pytest.approx(1, rel=0.1)
        assert layer.strength.mean == pytest.approx(math.log(2), rel=0.1)


@pytest.mark.slow
def test_measuring_writes_widths_and_changes_neither_logits_nor_model():
    model, given = varied(add_locat(plain())), images(12, 20)
    with torch.no_grad():
        before = model(given)
        profile = measure_model(model, given.split(3))
        assert torch.equal(model(given), before)
    assert not any(x._forward_pre_hooks for x in model.modules() if isinstance(x, Gaussian))
    written = json.loads(json.dumps(measurement(profile)))
    alone = gaussian_widths(model, given)
    for layer, expected in zip(written["layers"], alone, strict=True):
        found = layer["gaussian"]
        assert found["deviation"]["percentiles"] == pytest.approx(expected.deviation.percentiles)
        assert found["strength"]["mean"] == pytest.approx(expected.strength.mean)
        assert found["near_bounds"] == pytest.approx(list(expected.near_bounds))
        assert found["grid"] == [3, 5]
    assert written["gaussian"]["percentiles"] == [5, 25, 50, 75, 95]


def test_a_model_without_gaug_has_no_such_numbers():
    written = measurement(measure_model(plain(), images(12, 20)))
    assert "gaussian" not in written
    assert not any("gaussian" in layer for layer in written["layers"])
    with pytest.raises(UserError, match=r"VisionTransformer has no .*GAug.*add_locat"):
        ns.gaussian_widths(plain(), images(12, 20))


def test_a_gaussian_that_is_no_number_is_named():
    model = add_locat(plain())
    model.blocks[1].attn.gaug.log_var.bias.data[0] = torch.nan
    with pytest.raises(UserError, match=r"\bNaN\b.*\blayer blocks\.1\.attn\b"):
        gaussian_widths(model, images(12, 20))


@pytest.mark.slow
def test_shares_of_processes_join_to_the_whole():
    model, given = varied(add_locat(plain())), images(12, 20)
    (whole, *_), (one, *_), (two, *_) = (
        gaussian_widths(model, x) for x in (given, given[:3], given[3:])
    )
    joined = WidthReadOut.merge([one, two])
    assert joined.near_bounds == pytest.approx(whole.near_bounds)
    for name in ("deviation", "strength"):
        found, expected = getattr(joined, name), getattr(whole, name)
        assert found.image_means == pytest.approx(expected.image_means)
        assert found.percentiles == pytest.approx(expected.percentiles, rel=1e-4)
