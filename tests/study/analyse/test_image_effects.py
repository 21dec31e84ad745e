"""Effects over seeds and images are those of the runs' own numbers per image."""

import numpy as np
import pytest

from nearsight.stats import other_half_values
from nearsight.study.analyse.factorials import factorial, signs
from nearsight.study.analyse.image_effects import effects_per_image
from nearsight.study.analyse.outcome import Outcome

IMAGES = 17


def test_effects_of_a_factorial_are_those_of_the_runs_own_minima():
    rng = np.random.default_rng(8)
    levels = {"a": (False, True), "b": ("x", "y")}
    cells = {
        cell: {
            seed: other_half_values(rng.normal(0.3 + 0.1 * i, 0.1, (IMAGES, 5)))
            for seed in range(3)
        }
        for i, cell in enumerate(signs(["a"], levels))
    }
    outcomes = [
        Outcome(dict(zip(levels, cell)), seed, {"min_mad": float(values.mean())})
        for cell, runs in cells.items()
        for seed, values in runs.items()
    ]
    plain = factorial(outcomes, "min_mad", levels)
    found = effects_per_image(cells, levels)
    assert list(found) == [("a",), ("b",), ("a", "b")]
    for names, contrast in found.items():
        expected = plain.effect(*names).estimate
        assert contrast.over_seeds.low == pytest.approx(expected.low)
        assert contrast.over_both.value == pytest.approx(expected.value)
