"""Effects over epochs: since when they show, and their figure."""

import pytest

from nearsight.report.figures.drawing import panel_svgs
from nearsight.report.figures.study.effects_over_time import EffectCurve, effect_curves
from nearsight.stats.estimate import Estimate


def over(value: float, half: float) -> Estimate:
    return Estimate(value, value - half, value + half, 3, "seeds")


def test_an_effect_shows_from_the_epoch_after_its_last_interval_around_0():
    points = [(2, over(-0.3, 0.1)), (4, over(0.1, 0.2)), (6, over(-0.2, 0.1)), (8, over(-0.2, 0.1))]
    assert EffectCurve("min_mad", "", "CutMix", points).since == 6
    assert EffectCurve("min_mad", "", "CutMix", points[:2]).since is None
    turned = [(2, over(0.3, 0.1)), (4, over(-0.3, 0.1))]
    assert EffectCurve("min_mad", "", "CutMix", turned).since == 4


@pytest.mark.slow
def test_effects_over_epochs_have_a_panel_per_number_and_level():
    points = [(2, over(-0.1, 0.2)), (4, over(-0.2, 0.1))]
    curves = [
        EffectCurve("min_mad", where, label, points)
        for where in ("1 layer", "4 layers")
        for label in ("CutMix", "AutoAugment")
    ]
    (drawing,) = effect_curves(curves, "effect-curves", "made up")
    assert [panel.title for panel in drawing.panels] == ["min MAD: 1 layer", "min MAD: 4 layers"]
    assert len(drawing.rows) == 8
    assert "CutMix on min MAD (4 layers) from epoch 4" in drawing.reading
    svgs = panel_svgs(drawing)
    assert all("AutoAugment" in svg for svg in svgs)
    assert effect_curves([EffectCurve("min_mad", "", "CutMix", points[:1])], "x", "") == []
