"""The search for a locality: what is chosen on training images, and what is written."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from evaluate.made_sets import pictures, small_model
from PIL import Image

import nearsight as ns
from nearsight.core import UserError
from nearsight.evaluate import SearchSettings, benches, locality_search, search_locality
from nearsight.evaluate.attention_summary import prefix_shares
from nearsight.evaluate.bench_runner import evaluate_subject
from nearsight.evaluate.benches import Settings
from nearsight.evaluate.features import subject_of
from nearsight.measure.localise import Locality, read_locality
from nearsight.runs.records import LOCALISE_FILE


@pytest.fixture(autouse=True)
def _made_up_data(monkeypatch: pytest.MonkeyPatch):
    """40 training images and 9 of val, whatever is asked for."""

    def opener(data, root, split, num=None):
        whole = pictures(40, 0) if split == "train" else pictures(9, 1)
        return whole if num is None else whole.part(np.arange(num), whole.name)

    monkeypatch.setitem(benches.OPENERS, "masks", opener)
    monkeypatch.setattr(locality_search, "open_masks", opener)


def small(locality=None):
    return subject_of(small_model(), "mu", image_size=(24, 40), locality=locality)


def test_held_out_training_images_are_disjoint_from_those_trained_on():
    train, scored = benches._held_out(pictures(40, 0), 7)
    assert scored.names == ("0", "5", "11", "17", "22", "28", "34")
    assert sorted(map(int, train.names + scored.names)) == list(range(40))
    for place, name in enumerate(scored.names):  # images and masks go together
        assert np.array_equal(scored.mask(place), pictures(40, 0).mask(int(name)))
    with pytest.raises(UserError, match=r"\b40 training images"):
        benches._held_out(pictures(40, 0), 40)


@pytest.mark.slow
def test_a_local_subject_has_features_and_a_name_of_its_own(tmp_path: Path):
    plain, local = small(), small(read_locality("gaussian:0.5@all"))
    assert local.name == "mu gaussian:0.5@all"
    assert local.identity != plain.identity
    images = torch.randn(2, 3, 24, 40, generator=torch.Generator().manual_seed(2))
    (here,), (there,) = (x.extractor.features(images, [2], "block") for x in (plain, local))
    by_hand = ns.localise(small_model(), 0.5, "all").eval()
    (expected,) = subject_of(by_hand, image_size=(24, 40)).extractor.features(images, [2], "block")
    assert torch.equal(there.patches, expected.patches)
    assert not torch.allclose(here.patches, there.patches, atol=1e-3)
    settings = Settings(tasks="hummingbird", options={"k": 5}, controls=False, cache=tmp_path)
    one, other = (evaluate_subject(x, settings) for x in (plain, local))
    assert one.remarks == ()
    assert "of their attention to prefix tokens" in other.remarks[0]


@pytest.mark.slow
def test_the_share_of_prefix_tokens_is_that_of_captured_attention():
    locality = read_locality("gaussian:0.5@last1")
    subject = small(locality)
    images = torch.randn(3, 3, 24, 40, generator=torch.Generator().manual_seed(2))
    found = prefix_shares(subject, images)
    for model, share in ((small_model(), found.plain), (subject.model, found.local)):
        with ns.capture_attention(model) as maps, torch.no_grad():
            model(images)
        assert share == pytest.approx(float(maps[1][:, :, 2:, :2].sum(-1).mean()), abs=1e-5)
    assert found.local > found.plain + 0.1
    assert found.layers == (2,)


@pytest.mark.slow
def test_the_best_candidate_on_training_images_is_chosen_and_scored_on_val(tmp_path, monkeypatch):
    for number in range(4):
        Image.new("RGB", (40, 24), (50 * number, 0, 0)).save(tmp_path / f"{number}.png")

    def open_small(target, locality=None, **others):
        return small(locality)

    monkeypatch.setattr(locality_search, "open_subject", open_small)
    said: list[str] = []
    settings = SearchSettings(
        data="made up", widths=(0.5,), depths=(1, 2, 3), num_memory=20, num_held_out=12,
        cache=tmp_path / "cache", accuracy_images=tmp_path,
    )  # fmt: skip
    path = search_locality("mu", settings, out=tmp_path / "out", say=said.append)
    found = LOCALISE_FILE.read(path.parent)
    tried = {each.name: each for each in found.tried}
    candidates = [each for each in found.tried if each.role == "candidate"]
    assert [each.name for each in candidates] == [
        f"{kind}@last{depth}" for depth in (1, 2) for kind in ("gaussian:0.5", "window:3")
    ]
    assert found.chosen == max(candidates, key=lambda each: each.score.value).name
    assert found.searched.num_train == 20
    assert found.searched.num_scored == 12
    assert found.scored is not None
    assert (found.scored.num_train, found.scored.num_scored) == (40, 9)
    chosen = Locality.__str__(replace(read_locality(found.chosen), keep_share=True))
    layers = found.chosen.partition("@")[2]
    names = [each.name for each in found.results]
    assert names[:6] == [
        "plain", found.chosen, f"identity@{layers}", f"window:1@{layers}", names[4], chosen,
    ]  # fmt: skip
    assert names[4].startswith("shifted:")
    assert names[6].startswith("sinks:")
    assert names[7] == "plain, layer 1"
    for each in found.results[1:]:
        assert each.gain is not None
        assert each.gain.value == pytest.approx(each.score.value - found.results[0].score.value)
    assert [each.layer for each in found.layers] == [1, 2]
    assert found.layers[1].score.value == tried["plain"].score.value
    assert found.accuracy is not None
    assert found.accuracy.num_images == 4
    assert any("chosen on training images" in line for line in said)


def test_images_for_accuracy_are_named_by_numbers(tmp_path: Path):
    Image.new("RGB", (40, 24)).save(tmp_path / "cat.png")
    settings = SearchSettings(accuracy_images=tmp_path)
    with pytest.raises(UserError, match=r"\b0042\.jpg.*\bcat\.png"):
        search_locality("mu", settings)
