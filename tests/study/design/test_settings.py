"""What was set for a run, and the numbers of it that claims ask for."""

from dataclasses import replace
from pathlib import Path

import pytest
from runs.made_records import looked, measure_contents

from nearsight.protocol import GaussianSettings, GpsaSettings, LocatSettings
from nearsight.protocol.fraction import at_fraction
from nearsight.protocol.presets import preset
from nearsight.runs.records import MEASURE_FILE
from nearsight.study.analyse.results import claim_values
from nearsight.study.design.settings import protocol_settings, size_and_kind


def with_model(**changes):
    protocol = preset("baseline")
    return replace(protocol, model=replace(protocol.model, **changes))


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"name": "compact_vit"}, ("compact", "plain")),
        ({"name": "nano_gaug"}, ("nano", "gaug")),
        ({"name": "compact_convit"}, ("compact", "convit")),
        ({"name": "compact_convit", "gpsa": GpsaSettings(layers=0)}, ("compact", "plain")),
        ({"name": "compact_vit", "gpsa": GpsaSettings(mixing="summed")}, ("compact", "psa")),
        ({"name": "compact_vit", "locat": LocatSettings(gaussian=None)}, ("compact", "prr")),
        ({"name": "nano_vit", "locat": LocatSettings(refine=False)}, ("nano", "gaug")),
        ({"name": "compact_vit", "pool": "avg"}, ("compact", "gap")),
        ({"name": "convit_small_plus"}, ("small_plus", "convit")),
        ({"name": "deit_small_plus"}, ("small_plus", "plain")),
        ({"name": "locatvit_tiny"}, ("tiny", "locat")),
        ({"name": "vit_tiny_patch16_224"}, ("tiny", "plain")),
        ({"name": "resnet10t"}, ("resnet10t", "plain")),
        ({"name": "locatswin_tiny"}, ("swin_tiny", "locat")),
        ({"name": "swin_tiny_patch4_window7_224"}, ("swin_tiny", "plain")),
        ({"name": "locatvit_base_rope_mixed"}, ("base_rope_mixed", "locat")),
        ({"name": "vit_base_patch16_rope_mixed_224"}, ("base_rope_mixed", "plain")),
        ({"name": "jumbo_tiny"}, ("jumbo_tiny", "plain")),
        ({"name": "locatjumbo_tiny"}, ("jumbo_tiny", "locat")),
        (
            {"name": "locatvit_tiny", "locat": LocatSettings(gaussian=None, refine=False)},
            ("tiny", "plain"),
        ),
    ],
)
def test_models_of_one_size_compare_by_their_kind(changes, expected):
    assert size_and_kind(with_model(**changes)) == expected


def test_what_a_name_stands_for_is_spelt_out():
    named = protocol_settings(with_model(name="compact_convit"))
    told = protocol_settings(with_model(name="compact_convit", gpsa=GpsaSettings()))
    assert named == told
    assert named["model.gpsa.convolution"] is True
    assert "model.gpsa.layers" not in named  # left to the model
    gaug = protocol_settings(with_model(name="nano_gaug"))
    assert gaug["model.locat.gaussian.strength"] == GaussianSettings().strength
    assert gaug["model.locat.refine"] is False


def test_parts_are_on_or_off_and_colour_jitter_stands_for_autoaugment():
    off, on = protocol_settings(preset("baseline")), protocol_settings(preset("modern"))
    names = ("autoaugment", "cutmix", "labelsmoothing")
    assert [off[name] for name in names] == [False] * 3
    assert [on[name] for name in names] == [True] * 3
    tiny = protocol_settings(preset("baseline+colorjitter", "tiny-imagenet"))
    assert [tiny[name] for name in names] == [True, False, False]


def test_names_and_looks_set_nothing_but_the_fraction_does():
    protocol = preset("baseline")
    other = replace(protocol, name="mine", measure_every=3, measure_images=7)
    assert protocol_settings(other) == protocol_settings(protocol)
    tenth = protocol_settings(at_fraction(protocol, 0.1), (8, 8))
    assert (tenth["data.fraction"], tenth["epochs"], tenth["grid"]) == (0.1, 6000, "8x8")


def look(nonlocality, gates=None):
    seen = {"num_images": 7, "mad": {"mean": [[0.25]]}}
    seen["layer_mean_nonlocality"] = [around(x) for x in nonlocality]
    if gates:
        rest = {"centre": [], "span": []}
        seen["gpsa"] = [None if gate is None else {"gate": gate, **rest} for gate in gates]
    return seen


def around(value: float) -> dict[str, float]:
    return {"value": value, "low": value - 0.01, "high": value + 0.01}


MEASURE = MEASURE_FILE.record(
    measure_contents(
        num_layers=3,
        num_heads=[2, 2, 2],
        summary={
            "min_entropy": around(0.11) | {"layer": 1, "head": 2},
            "min_mad": around(0.15) | {"layer": 1, "head": 1},
            "layer_mean_entropy": [around(0.7), around(0.9)],
            "layer_mean_mad": [around(0.2), around(0.3), around(0.45)],
        },
        layers=[
            {"layer": 1, "mad": {"mean": [0.15, 0.25]}},
            {"layer": 2, "mad": {"mean": [0.28, 0.32]}},
            {
                "layer": 3,
                "mad": {"mean": [0.4, 0.5]},
                "locality_score": {"mean": 0.6},
                "cls_similarity": {"mean": None},
            },
        ],
    )
)


def numbers(lines):
    return claim_values(Path("run"), MEASURE, looked(lines), frozenset())


def test_the_numbers_that_only_claims_ask_for():
    expected = {
        "min_entropy": 0.11, "all_layers_min_entropy": 0.11, "all_layers_min_mad": 0.15,
        "layer1_entropy": 0.7, "entropy_layer_1": 0.7, "entropy_layer_2": 0.9, "mad_rise": 0.25,
        "mad_layer_1": 0.2, "mad_last_read": 0.45, "least_layer_mad": 0.2, "layer1_max_mad": 0.25,
        "min_mad_layer": 1.0, "locality_score_layer_3": 0.6,
    }  # fmt: skip
    assert numbers([]) == pytest.approx(expected)


def test_a_layer_that_nothing_reads_is_no_end_of_a_hierarchy():
    layers = [x.contents() for x in MEASURE.layers]
    layers[2]["unread"] = True
    marked = MEASURE_FILE.record(MEASURE.contents() | {"schema_version": 3, "layers": layers})
    assert claim_values(Path("run"), marked, [], frozenset())["mad_rise"] == pytest.approx(0.1)
    layers[1]["unread"] = True  # one layer has no depth to compare
    marked = MEASURE_FILE.record(MEASURE.contents() | {"schema_version": 3, "layers": layers})
    found = claim_values(Path("run"), marked, [], frozenset())
    assert not {"mad_rise", "mad_last_read", "min_mad_layer"} & set(found)


def test_heads_below_the_line_are_counted_by_kind_where_an_output_reads_them():
    def layer(number, **changes):
        mads, masses = {"mean": [0.05, 0.06, 0.4]}, {"mean": [0.9, 0.1, 0.0]}
        return {"layer": number, "mad": mads, "self_mass": masses, **changes}

    record = MEASURE_FILE.record(
        MEASURE.contents()
        | {
            "schema_version": 3,
            "num_heads": [3, 3, 3],
            "null": {"box_mad": 0.1},
            "layers": [layer(1), layer(2), layer(3, unread=True)],
        }
    )
    found = claim_values(Path("run"), record, [], frozenset())
    assert (found["identity_heads"], found["local_heads"]) == (2.0, 2.0)


def test_changes_while_training_are_of_the_layer_that_speaks_most_against_the_claim():
    """Layers 1 and 2 have GPSA, layer 3 has not; the last early look is at epoch 4."""
    lines = [
        {"epoch": 0, "attention": look([1.0, 1.0, 3.0], [[0.7, 0.7], [0.7, 0.7], None])},
        {"epoch": 1},
        {"epoch": 4, "attention": look([0.8, 0.9, 2.5], [[0.5, 0.5], [0.6, 0.6], None])},
        {"epoch": 8, "attention": look([1.5, 1.25, 4.0], [[0.1, 0.3], [0.4, 0.8], None])},
    ]
    found = numbers(lines)
    assert found["early_nonlocality"] == pytest.approx(-0.1)
    assert found["gpsa_nonlocality"] == pytest.approx(0.25)
    assert found["gate_change"] == pytest.approx(-0.1)
    assert "gpsa_nonlocality" not in numbers(lines[1:])  # no look before step 1


def test_psa_has_no_gates_to_change():
    lines = [{"epoch": e, "attention": look([1.0 + e])} for e in (0, 3)]
    for line in lines:
        line["attention"]["gpsa"] = [{"gate": None, "centre": [], "span": []}]
    found = numbers(lines)
    assert (found["early_nonlocality"], found["gpsa_nonlocality"]) == (3.0, 3.0)
    assert "gate_change" not in found


def test_gates_and_nonlocality_while_training_give_the_numbers_of_convits_claims():
    """Ten gated layers: 5 keep their gates; layers 6 to 10 end at most at 0.02."""
    from nearsight.report.read import Gates, Learned, Look
    from nearsight.stats import Estimate
    from nearsight.study.analyse.results import _while_training

    def look(epoch, gates, far):
        made = [Gates(gate=[x, x], centre=[None, None], span=[None, None]) for x in gates]
        lines = [Estimate(x, x, x, 3, "images") for x in far]
        return Look(epoch, 3, {"mad": [[0.1]] * 10}, lines, Learned({Gates: made}))

    start = look(0, [0.7] * 10, [5.0] * 10)
    soon = look(5, [0.6] * 10, [3.0] * 10)
    end = look(9, [0.4] * 5 + [0.01, 0.02, 0.0, 0.0, 0.01], [3.5] * 5 + [4.5] * 5)
    found = _while_training([start, soon, end])
    assert found["positional_layers"] == 5
    assert found["late_gate"] == pytest.approx(0.02)
    assert found["lower_nonlocality"] == pytest.approx(-1.5)
    assert found["upper_climb"] == pytest.approx(1.5)
