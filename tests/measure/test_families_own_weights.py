"""Every supported family against its own unfused attention, put on the image by plain loops."""

import numpy as np
import pytest
from measure import reference_places as slow
from measure.families_table import CASES

from nearsight.measure.profile import measure_model


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_toy_of_the_family_is_measured_as_its_own_weights_say(case):
    if case.library == "Hugging Face":
        pytest.importorskip("transformers", reason="the hf extra is not installed")
    model, images = case.model(), case.images()
    profile = measure_model(model, images, metrics=("mad",))
    places = case.places()
    own = [rows for rows in case.weights(model, images) if rows.shape[-2] > 1]
    assert [layer.name for layer in profile.layers] == list(places)
    assert [name for name, _ in profile.skipped] == list(case.skipped)
    assert len(own) == len(places)
    for facts, values, rows, at in zip(profile.layers, profile.mad.values, own, places.values()):
        assert (facts.grid.rows, facts.grid.cols) == (at.rows, at.cols)
        assert facts.num_prefix == at.num_prefix
        expected = np.array(slow.mad(rows, at))
        assert expected.std() > 1e-4  # heads and images differ, or the test would be blind
        np.testing.assert_allclose(values, expected, atol=1e-6)
