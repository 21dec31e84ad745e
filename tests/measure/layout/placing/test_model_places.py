"""Found places equal listed places exactly, for every family in the table."""

from dataclasses import replace
from functools import partial

import pytest
import torch
from measure.layout.families_global import create_timm
from measure.layout.families_hierarchical import MAXVIT, create_mvit
from measure.layout.families_table import LISTED
from measure.layout.test_tokens import on_the_image

from nearsight.measure.capture.interception import Place
from nearsight.measure.layout.placing import Placed, place_model
from nearsight.measure.layout.placing.model_places import MAX_FORWARDS

WIDE_MAXVIT = MAXVIT | {"embed_dim": (48, 96), "stem_width": 24}
WIDE_MVIT = {"embed_dim": (48, 96)}

# Convolutions smear what a token sees; 12 features are too few to find its middle in 100 forwards.
WIDER = {
    "timm: MaxViT": partial(create_timm, "maxvit_tiny_tf_224", **WIDE_MAXVIT),
    "timm: MaxViT, channels last": partial(create_timm, "maxvit_rmlp_pico_rw_256", **WIDE_MAXVIT),
    "timm: MViTv2": partial(create_mvit, (52, 76), rel_pos_type="", **WIDE_MVIT),
    "timm: MViTv2 with a class token": partial(
        create_mvit, (48, 48), use_cls_token=True, **WIDE_MVIT
    ),
}
SLOW = ("Swin", "MaxViT", "MViT", "PVT", "Hiera", "SHViT")


def marked(case):
    case = replace(case, build=WIDER[str(case)]) if str(case) in WIDER else case
    slow = [pytest.mark.slow] if any(word in str(case) for word in SLOW) else []
    return pytest.param(case, marks=slow, id=str(case))


@pytest.mark.parametrize("case", [marked(case) for case in LISTED])
@pytest.mark.slow
def test_found_places_are_those_of_plain_loops(case):
    if case.library == "Hugging Face":
        pytest.importorskip("transformers", reason="the hf extra is not installed")
    found = place_model(Place("", case.model(), (case.images(),)))
    assert found.num_forwards <= MAX_FORWARDS
    by_name = {call.name: call.found for call in found.calls}
    for name, places in case.places().items():
        call = by_name[name]
        assert isinstance(call, Placed)
        assert call.confidence > 0.02
        assert on_the_image(call.queries, call.grid.coordinates()) == places.queries
        assert on_the_image(call.keys, call.cells) == places.keys
        assert call.fold.sizes(2)[0] == 2 * (1 if places.inner else len(places.queries))


@pytest.mark.slow
def test_placing_leaves_the_model_and_the_random_state_as_they_were():
    case = LISTED[0]
    model, state = case.model(), torch.get_rng_state()
    before = [x.clone() for x in model.parameters()]
    place_model(Place("", model, (case.images(),)))
    assert torch.equal(state, torch.get_rng_state())
    assert all(torch.equal(x, y) for x, y in zip(before, model.parameters(), strict=True))
    assert not any(x._forward_hooks for x in model.modules())
