"""A wrong place cannot pass silently: toys whose tokens are moved, hidden or dropped."""

import pytest
import torch
from torch import nn

import nearsight as ns
from nearsight.core import UserError
from nearsight.measure.capture.interception import Place
from nearsight.measure.layout.found import fingerprint, keep_places, model_places
from nearsight.measure.layout.placing import Placed, place_model

ROWS, COLS, WIDTH = 3, 5, 24


class Toy(nn.Module):
    """3x5 patches of 4x4 pixels after a class token, and two layers of attention."""

    def __init__(self, order=None, pooling=0.0, dropping=None):
        super().__init__()
        self.patches = nn.Conv2d(3, WIDTH, 4, stride=4)
        self.token = nn.Parameter(torch.zeros(1, 1, WIDTH))
        self.layers = nn.ModuleList(nn.MultiheadAttention(WIDTH, 3, batch_first=True) for _ in "ab")
        order = torch.arange(ROWS * COLS) if order is None else order
        self.register_buffer("order", order)
        self.pooling, self.dropping = pooling, dropping

    def forward(self, images):
        x = self.patches(images).flatten(2).transpose(1, 2)[:, self.order]
        x = x + self.pooling * x.mean(1, keepdim=True)
        if self.dropping == "image":
            x = torch.stack([each[each[:, 0].argsort()] for each in x])
        if self.dropping == "random":
            x = x[:, torch.randperm(x.shape[1])]
        x = torch.cat([self.token.expand(len(x), -1, -1), x], dim=1)
        for layer in self.layers:
            x = x + layer(x, x, x, need_weights=False)[0]
        return x.mean(1)


def images(num=2):
    return torch.randn(num, 3, 4 * ROWS, 4 * COLS, generator=torch.Generator().manual_seed(5))


def a_toy(**options):
    torch.manual_seed(7)
    return Toy(**options).eval()


def shuffled():
    return torch.randperm(ROWS * COLS, generator=torch.Generator().manual_seed(3))


@pytest.mark.slow
def test_permuted_tokens_are_followed():
    order = shuffled()
    found = place_model(Place("", a_toy(order=order), (images(),)))
    for call in found.calls:
        assert isinstance(call.found, Placed)
        assert call.found.queries.tolist() == [[-1, *order.tolist()]]
        assert call.found.keys.tolist() == [[-1, *order.tolist()]]


@pytest.mark.slow
def test_a_model_is_measured_the_same_whichever_order_its_tokens_are_in():
    plain, moved = a_toy(), a_toy(order=shuffled())
    expected = ns.measure_model(plain, images(), metrics=("mad",)).mad.values
    found = ns.measure_model(moved, images(), metrics=("mad",)).mad.values
    for a, b in zip(expected, found, strict=True):
        assert a == pytest.approx(b, abs=1e-6)


class Smeared(nn.Module):
    """4x4 patches, depthwise convolutions with random kernels wider than the map, attention."""

    def __init__(self, stride=1):
        super().__init__()
        self.patches = nn.Conv2d(3, 16, 8, stride=8)
        self.smearing = nn.Conv2d(16, 16, 7, padding=3, groups=16, stride=stride)
        self.attention = nn.MultiheadAttention(16, 2, batch_first=True)

    def forward(self, images):
        x = self.smearing(self.patches(images)).flatten(2).transpose(1, 2)
        return x + self.attention(x, x, x, need_weights=False)[0]


@pytest.mark.slow
def test_convolutions_that_keep_a_map_as_large_as_it_is_do_not_hide_places():
    torch.manual_seed(3)
    model = Smeared().eval()
    kernel = model.smearing.weight.clone()
    (call,) = place_model(Place("", model, (torch.zeros(2, 3, 32, 40),))).calls
    assert isinstance(call.found, Placed)
    assert str(call.found.grid) == "4x5"
    assert call.found.queries.tolist() == [list(range(20))]
    assert torch.equal(model.smearing.weight, kernel)  # the copy was sharpened, not the model


@pytest.mark.slow
def test_a_model_that_hides_its_grid_by_global_pooling_is_refused():
    with pytest.raises(UserError, match=r"no attention layer of Toy .* sit is not clear: rows and"):
        ns.measure_model(a_toy(pooling=1000.0), images(), metrics=("mad",))


@pytest.mark.slow
def test_tokens_that_are_sorted_by_content_are_refused():
    with pytest.raises(UserError, match="where its tokens sit depends on the image"):
        ns.measure_model(a_toy(dropping="image"), images(), metrics=("mad",))


def test_tokens_that_are_shuffled_at_random_are_refused():
    with pytest.raises(UserError, match="drops or shuffles patches at random"):
        ns.measure_model(a_toy(dropping="random"), images(), metrics=("mad",))


def test_places_are_kept_by_architecture_and_image_size_and_not_by_weights():
    place = Place("", a_toy(), (images(),))
    torch.manual_seed(11)
    assert fingerprint(place) == fingerprint(Place("", Toy(), (images(num=1),)))
    others = [
        Place("", a_toy(order=shuffled()), (images(),)),
        Place("", a_toy(pooling=1.0), (images(),)),
        Place("", a_toy(), (torch.zeros(2, 3, 16, 20),)),
    ]
    assert len({fingerprint(x) for x in (place, *others)}) == 4


@pytest.mark.slow
def test_places_in_a_folder_are_read_back_as_they_were_found(tmp_path, monkeypatch):
    from nearsight.measure.layout import found as module

    steps = []
    place = Place("", a_toy(order=shuffled().flip(0)), (images(),))
    monkeypatch.setattr(module, "_known", {})
    with keep_places(tmp_path, progress=lambda done, most: steps.append((done, most))):
        first = model_places(place)
    assert steps[-1] == (100, 100)
    monkeypatch.setattr(module, "_known", {})
    monkeypatch.setattr(module, "place_model", None)
    with keep_places(tmp_path):
        again = model_places(place)
    assert again.num_forwards == first.num_forwards
    for a, b in zip(first.calls, again.calls, strict=True):
        assert (a.name, a.sizes, a.found.fold, a.found.grid) == (
            b.name, b.sizes, b.found.fold, b.found.grid,
        )  # fmt: skip
        assert torch.equal(a.found.queries, b.found.queries)
        assert torch.equal(a.found.cells, b.found.cells)
