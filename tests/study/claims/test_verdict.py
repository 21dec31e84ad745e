"""Verdicts: at the edges of the margin, with few seeds, at another scale, with several parts."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some
from scipy import stats

from nearsight.stats.estimate import Estimate
from nearsight.study.analyse.outcome import Outcome
from nearsight.study.claims.claim import ABOVE, BELOW, Claim, Region, Scale, within
from nearsight.study.claims.comparisons import difference, level, parts
from nearsight.study.claims.verdict import judge

SCALE = Scale(("compact_vit",), {"cifar100": 600}, "8x8", seeds=3)
OWN = {"model.name": "compact_vit", "data.name": "cifar100", "epochs": 600, "grid": "8x8"}


def claim(region, scale=SCALE, **rest):
    statistic = difference(
        "min_mad", {"cutmix": True}, {"cutmix": False}, region, "min MAD, on - off"
    )
    known = {
        "id": "x", "source": "nowhere, table 1", "sentence": "…", "value": "min_mad",
        "statistic": statistic, "direction": str(region), "compares": ("cutmix",), "scale": scale,
    }  # fmt: skip
    return Claim(**{**known, **rest})


def pairs(differences, **settings):
    """Outcomes whose differences between with and without CutMix are these."""
    return [
        Outcome({}, seed, {"min_mad": 0.3 + on * x}, {**OWN, **settings, "cutmix": bool(on)})
        for seed, x in enumerate(differences)
        for on in (0, 1)
    ]


def spread(mean, half):
    """Three numbers with this mean whose 95 % t-interval is mean ± half."""
    step = half * math.sqrt(3) / stats.t.ppf(0.975, 2)  # their standard deviation
    return [mean - step, mean, mean + step]


def decision(region, differences, **settings):
    (verdict,) = judge(claim(region), pairs(differences, **settings))
    return verdict.decision


def test_a_direction_needs_an_interval_without_zero():
    assert decision(BELOW, spread(-0.2, 0.19)) == "supported"
    assert decision(BELOW, spread(-0.2, 0.21)) == "not decided at this scale"
    assert decision(BELOW, spread(0.2, 0.19)) == "contradicted"
    assert decision(ABOVE, spread(0.2, 0.19)) == "supported"
    assert decision(ABOVE, spread(-0.2, 0.19)) == "contradicted"


def test_a_null_claim_is_supported_only_inside_its_margin():
    """0.03 ± 0.0199 ends inside 0.05, 0.03 ± 0.0201 does not; neither excludes the margin."""
    null = within(0.05)
    assert decision(null, spread(0.03, 0.0199)) == "supported"
    assert decision(null, spread(0.03, 0.0201)) == "not decided at this scale"
    assert decision(null, spread(0.0, 0.06)) == "not decided at this scale"  # not significant: open
    assert decision(null, spread(0.08, 0.0301)) == "not decided at this scale"
    assert decision(null, spread(0.08, 0.0299)) == "contradicted"
    assert decision(null, spread(-0.08, 0.0299)) == "contradicted"


def test_the_ends_of_a_margin_belong_to_it_and_zero_to_no_direction():
    touching = Estimate(0.03, 0.01, 0.05, 3, "seeds")
    assert within(0.05).holds(touching)
    assert not within(0.05).fails(Estimate(0.06, 0.05, 0.07, 3, "seeds"))
    zero = Estimate(-0.1, -0.2, 0.0, 3, "seeds")
    assert not BELOW.holds(zero)
    assert not ABOVE.fails(zero)
    assert Region(high=0.024).holds(Estimate(0.02, 0.016, 0.024, 3, "seeds"))


def test_regions_speak():
    found = [str(x) for x in (BELOW, ABOVE, within(0.05), Region(high=0.024), Region(low=-0.02))]
    assert found == ["below 0", "above 0", "within ±0.05", "at most 0.024", "at least -0.02"]


@pytest.mark.parametrize("n", [1, 2])
def test_few_seeds_decide_nothing_however_clear(n):
    (verdict,) = judge(claim(BELOW), pairs([-0.3, -0.3001][:n]))
    assert verdict.decision == "not enough seeds"
    assert f"there are only {n}" in verdict.reason
    assert (verdict.findings[0].estimate is None) == (n == 1)


def test_with_three_or_four_seeds_a_verdict_only_leans_and_gives_the_exact_p():
    five = Scale(("compact_vit",), {"cifar100": 600}, "8x8")
    for n, p in ((3, "0.25"), (4, "0.12")):
        clear = [-0.3, -0.31, -0.32, -0.33][:n]
        (verdict,) = judge(claim(BELOW, scale=five), pairs(clear))
        assert verdict.decision == "undecided, leaning to supported"
        assert f"exact p = {p}" in verdict.reason
        assert verdict.contents()["parts"][0]["p"] == 2 / 2**n
        (verdict,) = judge(claim(ABOVE, scale=five), pairs(clear))
        assert verdict.decision == "undecided, leaning to contradicted"
    (verdict,) = judge(claim(BELOW, scale=five), pairs([-0.3, -0.31, -0.32, -0.33, -0.34]))
    assert verdict.decision == "supported"


def test_seeds_that_lack_a_side_do_not_count():
    outcomes = pairs([-0.3, -0.31, -0.32])[:-1]
    (verdict,) = judge(claim(BELOW), outcomes)
    assert (verdict.decision, verdict.findings[0].n) == ("not enough seeds", 2)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"model.name": "nano_vit"}, "model nano_vit instead of compact_vit"),
        ({"data.name": "shapes"}, "data shapes instead of cifar100"),
        ({"epochs": 60}, "60 epochs of all data instead of 600"),
        ({"epochs": 600, "data.fraction": 0.1}, "60 epochs of all data instead of 600"),
        ({"grid": "4x4"}, "4x4 patches instead of 8x8"),
        ({"model.depth": 4}, "depth 4 instead of the model's own"),
    ],
)
def test_another_scale_decides_nothing_but_tells_what_was_seen(changed, words):
    (verdict,) = judge(claim(BELOW), pairs(spread(-0.2, 0.1), **changed))
    assert verdict.decision == "not decided at this scale"
    assert words in verdict.reason
    assert "Seen here: as claimed" in verdict.reason
    (opposite,) = judge(claim(BELOW), pairs(spread(0.2, 0.1), **changed))
    assert "Seen here: the opposite" in opposite.reason


def test_an_unknown_scale_decides_nothing():
    bare = [
        Outcome({}, x.seed, x.values, {"cutmix": x.settings["cutmix"]})
        for x in pairs(spread(-0.2, 0.1))
    ]
    (verdict,) = judge(claim(BELOW), bare)
    assert verdict.decision == "not decided at this scale"
    assert "model not known" in verdict.reason


def test_more_epochs_than_the_claims_and_the_same_images_seen_of_less_data_are_its_scale():
    assert decision(BELOW, spread(-0.2, 0.1), epochs=900) == "supported"
    found = decision(BELOW, spread(-0.2, 0.1), epochs=6000, **{"data.fraction": 0.1})
    assert found == "supported"


def test_nothing_to_compare_is_no_data_or_what_it_waits_for():
    half = [x for x in pairs([-0.1, -0.2, -0.3]) if x.settings["cutmix"]]
    (verdict,) = judge(claim(BELOW), half)
    assert verdict.decision == "no data"
    (verdict,) = judge(claim(BELOW, needs="evaluate"), half)
    assert verdict.decision == "needs evaluate"
    (verdict,) = judge(claim(BELOW, needs="evaluate"), pairs(spread(-0.2, 0.1)))
    assert verdict.decision == "supported"  # the number is there


def test_runs_that_differ_elsewhere_are_not_compared_but_judged_apart():
    outcomes = [*pairs(spread(-0.2, 0.1)), *pairs(spread(0.2, 0.1), **{"optimizer.lr": 0.1})]
    found = judge(claim(BELOW), outcomes)
    assert [verdict.decision for verdict in found] == ["supported", "contradicted"]
    mixed = [x for x in outcomes if x.settings["cutmix"] == ("optimizer.lr" in x.settings)]
    assert [verdict.decision for verdict in judge(claim(BELOW), mixed)] == ["no data"]


def test_settings_of_a_part_do_not_tell_groups_apart_where_the_part_itself_does():
    off = {"mixup": False, "label_smoothing": 0.0, "labelsmoothing": False}
    on = {"mixup": True, "mixup.alpha": 0.8, "label_smoothing": 0.1, "labelsmoothing": True}
    halves = [pairs([-0.1, -0.2, -0.3], **x) for x in (off, on)]
    found = judge(claim(BELOW), [x for half in halves for x in half])
    assert [x.settings for x in found] == [
        "label_smoothing 0, mixup off", "label_smoothing 0.1, mixup on",
    ]  # fmt: skip
    stronger = pairs([-0.1, -0.2, -0.3], **{**on, "mixup.alpha": 0.2})
    found = judge(claim(BELOW), [*halves[1], *stronger])
    assert [x.settings for x in found] == ["alpha 0.8", "alpha 0.2"]


def test_two_cells_for_one_side_are_said_not_chosen_from():
    outcomes = [*pairs([-0.1] * 3), *pairs([-0.1] * 3, **{"cutmix.alpha": 2.0})]
    (verdict,) = judge(claim(BELOW), outcomes)
    assert verdict.decision == "no data"
    assert "two cells of seed 0 have cutmix" in verdict.reason


def several(*numbers, num_parts=2):
    """A claim that x and y are both below 0, and outcomes with these numbers by seed."""
    statistic = parts(level("x", {}, BELOW, "x"), level("y", {}, BELOW, "y"))
    names = [name for name, row in zip("xy", numbers) if row]
    outcomes = [
        Outcome({}, seed, dict(zip(names, row)), OWN)
        for seed, row in enumerate(zip(*(row for row in numbers if row)))
    ]
    return judge(claim(BELOW, statistic=statistic, num_parts=num_parts), outcomes)[0]


def test_all_parts_have_to_hold_and_one_that_fails_is_enough():
    good, open_, bad = spread(-0.2, 0.1), spread(0.0, 0.1), spread(0.2, 0.1)
    assert several(good, good).decision == "supported"
    assert several(good, open_).decision == "not decided at this scale"
    assert several(good, bad).decision == "contradicted"


def test_a_part_that_fails_has_to_fail_at_the_level_of_as_many_chances():
    """At 95 % the interval excludes 0, at 97.5 % it does not: of two parts that is not enough."""
    close = spread(0.2, 0.19)
    assert several(close, None, num_parts=1).decision == "contradicted"
    assert several(spread(-0.2, 0.1), close).decision == "not decided at this scale"


def test_parts_that_are_missing_leave_it_open():
    verdict = several(spread(-0.2, 0.1), None)
    assert verdict.decision == "not decided at this scale"
    assert "1 of 2 parts" in verdict.reason


def test_a_verdict_is_plain_values_with_scale_and_numbers():
    (verdict,) = judge(claim(within(0.05), margin=0.05), pairs(spread(0.03, 0.0199)))
    found = verdict.contents()
    assert found["scale"] == "compact_vit on cifar100, 600 epochs at most, 8x8 patches"
    assert found["parts"][0]["high"] == pytest.approx(0.0499)
    assert (found["decision"], found["margin"]) == ("supported", 0.05)


@settings(deadline=None, max_examples=50)
@given(some.lists(some.floats(-0.5, 0.5), min_size=3, max_size=7), some.randoms())
def test_order_does_not_matter_and_opposite_claims_never_agree(differences, random):
    outcomes = pairs(differences)
    (below,), (above,) = judge(claim(BELOW), outcomes), judge(claim(ABOVE), outcomes)
    (again,) = judge(claim(BELOW), random.sample(outcomes, len(outcomes)))
    assert below.decision == again.decision
    mirror = {"supported": "contradicted", "contradicted": "supported"}
    assert above.decision == mirror.get(below.decision, below.decision)
