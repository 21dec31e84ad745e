"""Two models on the same images: paired intervals against scipy and loops, and what is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import scipy.stats
from measure.folders.made_profiles import NUM_IMAGES, made_profile
from runs.made_records import measure_contents, model_contents

from nearsight.core import UserError
from nearsight.measure.folders.comparison import folder_difference
from nearsight.measure.folders.difference import profile_difference
from nearsight.measure.metrics.estimates import Estimates
from nearsight.measure.profile.values import read_values, write_values
from nearsight.models.layers.grid import Grid
from nearsight.stats import other_half_values


def names(number: int = NUM_IMAGES) -> list[str]:
    return [f"é/{index}.png" for index in range(number)]


def test_every_head_has_scipys_paired_interval():
    a, b = made_profile(1), made_profile(2)
    found = profile_difference(a, b)
    assert found.level == "head"
    assert found.distance == "mad"
    assert set(found.metrics) == {"mad", "entropy", "self_mass"}
    for name, estimates in found.metrics.items():
        for layer in range(2):
            for head in range(3):
                differences = [
                    b.metrics[name].values[layer][i, head] - a.metrics[name].values[layer][i, head]
                    for i in range(NUM_IMAGES)
                ]
                mean, error = np.mean(differences), scipy.stats.sem(differences)
                low, high = scipy.stats.t.interval(0.95, NUM_IMAGES - 1, mean, error)
                assert estimates.mean[layer][head] == pytest.approx(mean, abs=1e-12)
                assert estimates.low[layer][head] == pytest.approx(low, abs=1e-12)
                assert estimates.high[layer][head] == pytest.approx(high, abs=1e-12)


def test_a_most_local_head_that_the_images_do_not_tell_is_noted():
    """Even images select head 0 of b and odd ones head 1; a has a clear winner."""
    clear = np.tile([0.1, 0.3, 0.5], (NUM_IMAGES, 1))
    open_ = np.array([[0.1, 0.2, 0.5], [0.2, 0.1, 0.5]])[np.arange(NUM_IMAGES) % 2]

    def noted(one, other):
        a, b = (
            replace(x, metrics={"mad": Estimates([values, np.full_like(values, 0.6)])})
            for x, values in ((made_profile(1), one), (made_profile(2), other))
        )
        return [x for x in profile_difference(a, b).notes if "do not tell" in x]

    assert noted(clear, clear) == []
    (note,) = noted(clear, open_)
    assert "which head of b is the most local" in note
    (note,) = noted(open_, open_)
    assert "which head of a and of b is" in note


def test_pairing_takes_away_what_the_images_have_in_common():
    a, b = made_profile(1), made_profile(2)
    found = profile_difference(a, b)
    paired = found.metrics["mad"].high[0][0] - found.metrics["mad"].low[0][0]
    alone = [p.mad.high[0][0] - p.mad.low[0][0] for p in (a, b)]
    assert paired < 0.8 * np.hypot(*alone)


def test_the_mean_over_all_heads_is_paired_too():
    a, b = made_profile(1, heads=(3, 5)), made_profile(2, heads=(3, 5))
    change = profile_difference(a, b).mean["entropy"]
    differences = []
    for i in range(NUM_IMAGES):
        one, two = ([value for layer in p.entropy.values for value in layer[i]] for p in (a, b))
        differences.append(sum(two) / 8 - sum(one) / 8)
    low, high = scipy.stats.t.interval(
        0.95, NUM_IMAGES - 1, np.mean(differences), scipy.stats.sem(differences)
    )
    assert (change.value, change.low, change.high) == pytest.approx(
        (np.mean(differences), low, high), abs=1e-12
    )


def test_layers_that_no_output_reads_are_left_out_of_the_mean_and_the_most_local_head():
    a, b = (
        replace(x, layers=(*x.layers[:-1], replace(x.layers[-1], unread=True)))
        for x in (made_profile(1), made_profile(2))
    )
    found = profile_difference(a, b)
    first, second = (x.mad.values[0] for x in (a, b))
    assert found.mean["mad"].value == pytest.approx((second - first).mean())
    halves = other_half_values(second) - other_half_values(first)
    assert found.most_local.value == pytest.approx(halves.mean())
    assert (
        "leave out layers whose patches no output reads: layer 2 of a and layer 2 of b."
        in (found.notes[-1])
    )
    assert len(found.metrics["mad"].mean) == 2  # single heads and layers stay
    notes = profile_difference(made_profile(1), made_profile(2)).notes
    assert not any("leave out" in note for note in notes)
    alone = replace(a, layers=tuple(replace(x, unread=True) for x in a.layers))
    assert profile_difference(alone, alone).mean["mad"].value == 0


def test_the_most_local_head_is_chosen_by_the_other_half_of_the_images():
    a, b = made_profile(1), made_profile(2, shift=0.01)
    change = profile_difference(a, b).most_local
    per_model = []
    for profile in (a, b):
        values = np.concatenate(profile.mad.values, axis=1).tolist()
        chosen = []
        for i in range(NUM_IMAGES):
            others = [row for k, row in enumerate(values) if k % 2 != i % 2]
            means = [sum(row[head] for row in others) / len(others) for head in range(6)]
            chosen.append(values[i][means.index(min(means))])
        per_model.append(chosen)
    differences = np.subtract(*per_model[::-1])
    assert change.value == pytest.approx(differences.mean())
    own = scipy.stats.t.interval(0.95, NUM_IMAGES - 1, change.value, scipy.stats.sem(differences))
    assert change.low < own[0]  # the halves select different heads
    assert change.high > own[1]


def test_a_clear_winner_has_the_paired_t_interval():
    a, b = (
        replace(
            x, metrics={"mad": Estimates([values - [0.3, 0, 0] for values in x.mad.values[:1]])}
        )
        for x in (made_profile(1, heads=(3,)), made_profile(2, heads=(3,)))
    )
    change = profile_difference(a, b).most_local
    differences = b.mad.values[0][:, 0] - a.mad.values[0][:, 0]
    own = scipy.stats.t.interval(
        0.95, NUM_IMAGES - 1, differences.mean(), scipy.stats.sem(differences)
    )
    assert (change.low, change.high) == pytest.approx(own)


def test_a_profile_does_not_differ_from_itself_and_a_shift_is_found():
    a = made_profile(1)
    same = profile_difference(a, a)
    assert same.most_local.value == same.most_local.low == same.most_local.high == 0
    assert not same.mean["mad"].excludes_zero
    moved = replace(
        a, metrics=a.metrics | {"mad": Estimates([values - 0.25 for values in a.mad.values])}
    )
    found = profile_difference(a, moved)
    assert found.mean["mad"].value == pytest.approx(-0.25)
    assert found.most_local.value == pytest.approx(-0.25)
    assert found.mean["mad"].excludes_zero


def test_other_numbers_of_heads_compare_layers_and_other_numbers_of_layers_models():
    a, b = made_profile(1, heads=(3, 5)), made_profile(2, heads=(7, 5))
    found = profile_difference(a, b)
    assert found.level == "layer"
    expected = b.mad.values[0].mean(1) - a.mad.values[0].mean(1)
    error = scipy.stats.sem(expected)
    low, high = scipy.stats.t.interval(0.95, NUM_IMAGES - 1, expected.mean(), error)
    change = found.layer_means["mad"][0]
    assert (change.value, change.low, change.high) == pytest.approx((expected.mean(), low, high))
    assert found.metrics == {}
    assert "numbers of heads" in found.notes[0]
    found = profile_difference(a, made_profile(2, heads=(3, 5, 3)))
    assert (found.level, found.metrics, found.layer_means) == ("model", {}, {})
    assert "2 and 3 layers" in found.notes[0]
    assert set(found.mean) == {"mad", "entropy", "self_mass"}


def test_other_grids_are_compared_by_score():
    a, b = made_profile(1, grid=Grid(5, 7)), made_profile(2, grid=Grid(2, 2))
    found = profile_difference(a, b)
    assert found.distance == "score"
    assert "mad" not in found.metrics
    assert "5x7 and 2x2" in found.notes[0]
    uniform = (2 + 2**0.5) / 4 / 2**0.5  # of a 2x2 grid, in diagonals
    one = 1 - a.mad.values[1][:, 2] / Grid(5, 7).uniform_distance()
    two = 1 - b.mad.values[1][:, 2] / uniform
    assert found.metrics["score"].mean[1][2] == pytest.approx((two - one).mean())
    best = [
        other_half_values(
            1 - np.concatenate(p.mad.values, axis=1) / g.uniform_distance(), largest=True
        ).mean()
        for p, g in ((a, Grid(5, 7)), (b, Grid(2, 2)))
    ]
    assert found.most_local.value == pytest.approx(best[1] - best[0])


def test_other_images_are_refused():
    with pytest.raises(UserError, match="13 and 11 images"):
        profile_difference(made_profile(1), made_profile(2, num_images=11))


def test_another_convention_is_converted_and_said():
    a, b = made_profile(1), made_profile(2)
    found = profile_difference(a, b.in_convention("pixels"))
    assert "converted to paper" in found.notes[0]
    expected = profile_difference(a, b)
    assert found.metrics["mad"].low[0] == pytest.approx(expected.metrics["mad"].low[0])


def test_a_metric_that_is_missing_somewhere_is_left_out():
    a, b = made_profile(1), made_profile(2)
    values = [x.copy() for x in b.entropy.values]
    values[1][5, 2] = np.nan
    found = profile_difference(a, replace(b, metrics=b.metrics | {"entropy": Estimates(values)}))
    assert set(found.metrics) == set(found.mean) == {"mad", "self_mass"}


def test_values_come_back_as_they_were_written(tmp_path: Path):
    profile = made_profile(3, heads=(3, 5))
    write_values(tmp_path / "v.safetensors", profile, names())
    found, images = read_values(tmp_path / "v.safetensors")
    assert images == names()
    assert found.layers == profile.layers
    assert found.skipped == profile.skipped
    assert set(found.metrics) == set(profile.metrics) - {"ring_mass"}
    for name, estimates in found.metrics.items():
        for one, two in zip(estimates.values, profile.metrics[name].values, strict=True):
            assert one.dtype == np.float64
            assert np.array_equal(one, two)
    with pytest.raises(UserError, match="13 images but 12 names"):
        write_values(tmp_path / "w.safetensors", profile, names(12))


def test_values_that_are_damaged_or_missing_are_one_sentence(tmp_path: Path):
    path = tmp_path / "v.safetensors"
    with pytest.raises(UserError, match=r"safetensors\b.*nearsight measure"):
        read_values(path)
    write_values(path, made_profile(3), names())
    whole = path.read_bytes()
    for content in (whole[:-50], b"", b"nonsense" * 9):
        path.write_bytes(content)
        with pytest.raises(UserError, match=r"/v\.safetensors .*\bdamaged\b.*nearsight measure"):
            read_values(path)


def write_folder(folder: Path, seed: int, images: list[str], data_hash: str = "00ff") -> Path:
    folder.mkdir()
    record = model_contents(f"model{seed}")
    record["data"]["hash"] = data_hash
    (folder / "run.json").write_text(json.dumps(record))
    measure = measure_contents(data={"name": "x", "hash": data_hash})
    (folder / "measure.json").write_text(json.dumps(measure))
    write_values(folder / "measure.safetensors", made_profile(seed, num_images=len(images)), images)
    return folder


def test_two_folders_are_compared_by_what_is_in_them(tmp_path: Path):
    a, b = (write_folder(tmp_path / name, seed, names()) for name, seed in (("a", 1), ("b", 2)))
    found = folder_difference(a, b).contents()
    expected = profile_difference(made_profile(1), made_profile(2))
    assert found["layers"][1]["mad"]["low"] == expected.metrics["mad"].low[1].tolist()
    assert found["layers"][1]["name"] == "blocks.1.attn"
    assert found["layers"][1]["entropy"]["of_mean"]["value"] == pytest.approx(
        expected.metrics["entropy"].mean[1].mean()
    )
    assert found["most_local"]["high"] == expected.most_local.high
    assert (found["a"]["name"], found["b"]["name"]) == ("model1", "model2")
    assert json.loads(json.dumps(found, allow_nan=False)) == found


def test_folders_of_other_images_are_refused_with_what_differs(tmp_path: Path):
    a = write_folder(tmp_path / "a", 1, names())
    for name, images, data_hash, words in (
        ("fewer", names(11), "00ff", "13 and 11 images"),
        ("renamed", [*names()[:-1], "z.png"], "00ff", "é/12.png in one where the other has z.png"),
        ("changed", names(), "11ff", "files of the same names but with other contents"),
    ):
        with pytest.raises(UserError, match=words):
            folder_difference(a, write_folder(tmp_path / name, 2, images, data_hash))


def test_a_folder_without_measurement_is_said(tmp_path: Path):
    a = write_folder(tmp_path / "a", 1, names())
    with pytest.raises(UserError, match=r"/nowhere\b"):
        folder_difference(a, tmp_path / "nowhere")
    (a / "measure.safetensors").unlink()
    with pytest.raises(UserError, match=r"safetensors\b.*nearsight measure"):
        folder_difference(a, a)
    (a / "measure.json").unlink()
    with pytest.raises(UserError, match=r"/a .*nearsight measure \S*/a\b"):
        folder_difference(a, a)
