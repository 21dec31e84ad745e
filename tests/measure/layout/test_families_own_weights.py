"""Every supported family against its own unfused attention, put on the image by plain loops."""

import numpy as np
import pytest
import torch
from measure.layout import reference_places as slow
from measure.layout.families_found import CASES as FOUND
from measure.layout.families_table import LISTED

from nearsight.measure.profile.profile import measure_model
from nearsight.measure.rows.captured import capture_attention


@pytest.fixture(
    params=[*LISTED, *(pytest.param(x, marks=pytest.mark.slow) for x in FOUND)], ids=str
)
def case(request):
    if request.param.library == "Hugging Face":
        pytest.importorskip("transformers", reason="the hf extra is not installed")
    return request.param


def own_layers(case, model, images):
    """The model's own rows and the places of each of its layers; one query is no layer."""
    own = [rows for rows in case.weights(model, images) if rows.shape[-2] > 1]
    return list(zip(own, case.places().values(), strict=True))


@pytest.mark.slow
def test_a_toy_of_the_family_is_measured_as_its_own_weights_say(case):
    model, images = case.model(), case.images()
    profile = measure_model(model, images, metrics=("mad",))
    assert [layer.name for layer in profile.layers] == list(case.places())
    assert [name for name, _ in profile.skipped] == list(case.skipped)
    own = own_layers(case, model, images)
    for facts, values, (rows, at) in zip(profile.layers, profile.mad.values, own, strict=True):
        assert (facts.grid.rows, facts.grid.cols) == (at.rows, at.cols)
        assert facts.num_prefix == at.num_prefix
        expected = np.array(slow.mad(rows, at))
        assert expected.std() > 1e-4  # heads and images differ, or the test would be blind
        np.testing.assert_allclose(values, expected, atol=1e-6)


@pytest.mark.slow
def test_captured_maps_are_its_own_weights_put_back_on_the_image(case):
    model, images = case.model(), case.images()
    with capture_attention(model) as maps:
        model(images)
    for found, (rows, at) in zip(maps, own_layers(case, model, images), strict=True):
        expected = slow.put_back(rows, at).to(found)
        torch.testing.assert_close(found, expected, atol=1e-6, rtol=0)
