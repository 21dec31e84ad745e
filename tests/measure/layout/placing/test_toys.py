"""A wrong place cannot pass silently: toys whose tokens are moved, hidden or dropped."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import nearsight as ns
from nearsight.core import UserError
from nearsight.measure.capture.interception import Place
from nearsight.measure.layout.found import fingerprint, keep_places, model_places
from nearsight.measure.layout.placing import Placed, place_model
from nearsight.measure.layout.placing.model_places import MAX_FORWARDS
from nearsight.measure.layout.placing.probe import copy_model

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
        if self.dropping == "best":
            best = x[..., 0].topk(7).indices
            x = x.gather(1, best[..., None].expand(-1, -1, WIDTH))
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
    with pytest.raises(UserError, match=r"\bToy\b.*\blayers\.0\b.*\b0\.00 cells; 0\.1 "):
        ns.measure_model(a_toy(pooling=1000.0), images(), metrics=("mad",))


@pytest.mark.slow
def test_tokens_that_are_sorted_by_content_are_refused():
    with pytest.raises(
        UserError, match=r"\b(Toy|Deformable)\b.*\blayers\.0\b.*depends on the image"
    ):
        ns.measure_model(a_toy(dropping="image"), images(), metrics=("mad",))


@pytest.mark.slow
def test_tokens_that_are_chosen_by_content_are_refused():
    """7 of 15 patches, as detectors choose their queries: they form no grid in any image."""
    with pytest.raises(
        UserError, match=r"\b(Toy|Deformable)\b.*\blayers\.0\b.*depends on the image"
    ):
        ns.measure_model(a_toy(dropping="best"), images(), metrics=("mad",))


class Deformable(Toy):
    """Keys and values are sampled from the map at points that the image moves by up to a cell."""

    def __init__(self):
        super().__init__()
        self.moving = nn.Conv2d(WIDTH, 2, 1)
        nn.init.normal_(self.moving.weight, std=2.0)

    def forward(self, images):
        x = self.patches(images)
        rows, cols = torch.linspace(-0.8, 0.8, ROWS), torch.linspace(-0.8, 0.8, COLS)
        at = torch.stack(torch.meshgrid(rows, cols, indexing="ij")[::-1], dim=-1).to(x)
        moved = at + 0.5 * self.moving(x).tanh().permute(0, 2, 3, 1)
        keys = F.grid_sample(x, moved, align_corners=False).flatten(2).mT
        x = x.flatten(2).mT
        return (x + self.layers[0](x, keys, keys, need_weights=False)[0]).mean(1)


@pytest.mark.slow
def test_keys_that_are_sampled_where_the_image_says_are_refused():
    torch.manual_seed(7)
    with pytest.raises(
        UserError, match=r"\b(Toy|Deformable)\b.*\blayers\.0\b.*depends on the image"
    ):
        ns.measure_model(Deformable().eval(), images(), metrics=("mad",))


class Decoder(Toy):
    """Two layers between patches, then learned queries that attend to each other and to them."""

    def __init__(self):
        super().__init__()
        self.questions = nn.Parameter(torch.randn(1, 7, WIDTH))
        self.asking = nn.ModuleList(nn.MultiheadAttention(WIDTH, 3, batch_first=True) for _ in "ab")

    def forward(self, images):
        x = self.patches(images).flatten(2).mT
        for layer in self.layers:
            x = x + layer(x, x, x, need_weights=False)[0]
        asked = self.questions.expand(len(x), -1, -1)
        asked = asked + self.asking[0](asked, x, x, need_weights=False)[0]
        return (asked + self.asking[1](asked, asked, asked, need_weights=False)[0]).mean(1)


@pytest.mark.slow
def test_learned_queries_are_left_out_with_the_true_reason():
    torch.manual_seed(7)
    profile = ns.measure_model(Decoder().eval(), images(), metrics=("mad",))
    assert [layer.name for layer in profile.layers] == ["layers.0", "layers.1"]
    reasons = dict(profile.skipped)
    assert "learned queries" in reasons["asking.0"]
    assert "its tokens depend on no pixels of their own" in reasons["asking.1"]


def test_tokens_that_are_shuffled_at_random_are_refused():
    with pytest.raises(UserError, match=r"\blayers\.0 \(MultiheadAttention\).*at random"):
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
def test_a_model_is_placed_once_for_each_architecture_and_image_size(monkeypatch):
    from nearsight.measure.layout import found as module

    sizes = []

    def count(place, progress):
        sizes.append(tuple(place.inputs[0].shape[2:]))
        return place_model(place, progress)

    monkeypatch.setattr(module, "_known", {})
    monkeypatch.setattr(module, "place_model", count)
    torch.manual_seed(11)
    wide = torch.randn(1, 3, 4 * ROWS, 4 * COLS)
    tall = torch.randn(1, 3, 4 * COLS, 4 * ROWS)
    for model in (a_toy(), Toy().eval()):
        for given, grid in ((wide, "3x5"), (tall, "5x3")):
            profile = ns.measure_model(model, given, metrics=("mad",))
            assert [str(layer.grid) for layer in profile.layers] == [grid, grid]
            assert max(layer.proof_error for layer in profile.layers) < 1e-5
    assert sizes == [(12, 20), (20, 12)]


class Caching(Toy):
    """Keeps a tensor of a graph of gradients in a dictionary, as timm's LeViT does."""

    def __init__(self):
        super().__init__()
        self.cache = {}

    def forward(self, images):
        self.cache["bias"] = [2 * self.token]
        return super().forward(images)


@pytest.mark.slow
def test_a_model_that_keeps_tensors_of_gradients_is_placed_and_keeps_them():
    torch.manual_seed(7)
    model = Caching().eval()
    model(images())
    kept = model.cache["bias"][0]
    copied = copy_model(model)
    assert model.cache["bias"][0] is kept
    assert kept.requires_grad
    assert not copied.cache["bias"][0].requires_grad
    assert str(ns.measure_model(model, images(), metrics=("mad",)).layers[0].grid) == "3x5"


@pytest.mark.slow
def test_a_clear_model_needs_few_forward_passes_and_none_more_than_a_hundred():
    clear = place_model(Place("", a_toy(), (images(),)))
    hidden = place_model(Place("", a_toy(pooling=1000.0), (images(),)))
    assert clear.num_forwards <= 20
    assert clear.num_forwards < hidden.num_forwards <= MAX_FORWARDS


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
