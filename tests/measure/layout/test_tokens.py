"""Grid and prefix tokens: what is given, declared and seen must agree; the rest is refused."""

from dataclasses import replace

import pytest
import torch
from measure.layout import families_found
from measure.layout.families_table import LISTED
from torch import nn

from nearsight.core import UserError
from nearsight.measure.capture.interception import AttentionCall, AttentionCapture, Place
from nearsight.measure.layout.families import family_of, layout_of
from nearsight.measure.layout.tokens import Layout, Skipped, declares
from nearsight.models.layers.grid import Grid

FOUND = [
    pytest.param(case, marks=pytest.mark.slow, id=str(case)) for case in families_found.CASES
]  # their places are measured on the model, which takes seconds


class Unknown(nn.Module):
    """A module of a known library of which nothing is known but what a test sets."""


Unknown.__module__ = "timm.models.unknown"


def a_call(num_tokens, convolved=(), batch=2, num_queries=None, **declared):
    model = Unknown()
    for name, value in declared.items():
        setattr(model, name, value)
    places = (
        Place("", model, (torch.zeros(2, 3, 12, 20),)),
        Place("blocks.7.attn", Unknown(), ()),
    )
    queries = torch.zeros(batch, 3, num_queries or num_tokens, 4)
    keys = torch.zeros(batch, 3, num_tokens, 4)
    return AttentionCall(places, tuple(convolved), keys, queries, queries=queries, keys=keys)


def found(call, **given):
    layout = layout_of(call, **given)
    return str(layout.grid), int((layout.keys < 0).sum())


def test_the_grid_is_the_convolution_output_that_the_tokens_leave_room_for():
    sizes = [(24, 40), (3, 5)]
    assert found(a_call(16, convolved=sizes, num_prefix_tokens=1)) == ("3x5", 1)
    assert found(a_call(15, convolved=sizes, num_prefix_tokens=0)) == ("3x5", 0)


def test_what_another_library_declares_is_not_believed():
    class Own(Unknown):
        num_prefix_tokens = 1

    Own.__module__ = "own"
    call = a_call(16, [(3, 5)])
    assert not declares(replace(call, path=(Place("", Own(), call.path[0].inputs), call.path[1])))


def test_the_user_may_give_both_or_one_of_grid_and_prefix():
    assert found(a_call(20), grid=Grid(3, 5), num_prefix=5) == ("3x5", 5)
    assert found(a_call(20), grid=Grid(3, 5)) == ("3x5", 5)
    assert found(a_call(20, [(3, 5), (4, 5)]), num_prefix=5) == ("3x5", 5)
    assert found(a_call(115, [(3, 5)]), num_prefix=100) == ("3x5", 100)


def test_the_user_is_believed_before_the_model():
    call = a_call(17, num_prefix_tokens=1, grid=Grid(4, 4))
    assert found(call) == ("4x4", 1)
    assert found(call, grid=Grid(3, 5), num_prefix=2) == ("3x5", 2)


def test_our_models_say_their_grid_themselves():
    assert found(a_call(18, [(1, 15), (5, 3)], grid=Grid(3, 5), num_prefix=3)) == ("3x5", 3)


@pytest.mark.parametrize(
    ("call", "given", "says"),
    [
        (
            a_call(16, [(3, 5), (5, 3)]),
            {"num_prefix": 1},
            r"\b3x5 or 5x3\b.* grid=\(4, 4\)",
        ),
        (
            a_call(17, [(3, 5)]),
            {"num_prefix": 1},
            "17 tokens .* not 1 prefix tokens and a 3x5 grid",
        ),
        (
            a_call(16, [(4, 4), (9, 9)]),
            {"num_prefix": 1},
            "no convolution .* with 1 prefix tokens",
        ),
        (a_call(16, []), {"num_prefix": 1}, r"\b16 tokens\b.*\b1 prefix tokens\b.*\bgrid="),
        (a_call(16), {"grid": Grid(3, 4), "num_prefix": 1}, "not 1 prefix tokens and a 3x4 grid"),
        (a_call(16), {"grid": Grid(3, 7)}, "16 tokens .* not prefix tokens and a 3x7 grid"),
        (a_call(15, batch=8), {"grid": Grid(3, 5)}, r"\[8, 3, 15, 15\] for 2 images.*windows"),
        (a_call(15, num_queries=6), {"grid": Grid(3, 5)}, "6 queries attend to 15 keys"),
    ],
)
def test_what_does_not_fit_is_refused_with_the_layer_and_the_reason(call, given, says):
    with pytest.raises(UserError, match=r"\blayer blocks\.7\.attn \(Unknown\) "):
        layout_of(call, **given)
    with pytest.raises(UserError, match=says):
        layout_of(call, **given)


def test_one_query_is_skipped_and_not_refused():
    skipped = layout_of(a_call(17, [(4, 4)], num_queries=1, num_prefix_tokens=1))
    assert skipped == Skipped("one query attends to 17 tokens: class attention or pooling")


def test_a_family_is_known_by_package_and_name_and_covers_subclasses():
    from timm.models.swin_transformer import SwinTransformerBlock

    class Subclass(SwinTransformerBlock):
        pass

    namesake = type("SwinTransformerBlock", (nn.Module,), {})
    assert family_of(Subclass) is family_of(SwinTransformerBlock) is not None
    assert family_of(namesake) is None


def on_the_image(tokens, points):
    """(row, col) of every token in every window; None without a place."""
    points = points.tolist()
    return [[tuple(points[i]) if i >= 0 else None for i in window] for window in tokens.tolist()]


@pytest.mark.parametrize("case", [*LISTED, *FOUND], ids=str)
def test_every_token_sits_where_plain_loops_put_it(case):
    if case.library == "Hugging Face":
        pytest.importorskip("transformers", reason="the hf extra is not installed")
    layouts, model = [], case.model()
    with torch.no_grad(), AttentionCapture(model, lambda call: layouts.append(layout_of(call))):
        model(case.images())
    layouts = [layout for layout in layouts if isinstance(layout, Layout)]
    for layout, places in zip(layouts, case.places().values(), strict=True):
        assert on_the_image(layout.queries, layout.grid.coordinates()) == places.queries
        assert on_the_image(layout.keys, layout.cells) == places.keys
        queries = layout.queries[layout.queries >= 0].tolist()
        assert sorted(queries) == list(range(layout.grid.num_patches))
