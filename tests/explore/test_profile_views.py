"""A profile at home: as text, in a notebook, as a table, a figure, a file, a report."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch

import nearsight as ns
from nearsight.core import UserError

COUNT, SIDE = 5, 32


@pytest.fixture(scope="module")
def profile() -> ns.Profile:
    torch.manual_seed(3)
    model = ns.create_model("nano_locat", num_classes=7)
    return ns.measure_model(model, torch.randn(COUNT, 3, SIDE, SIDE), metrics="all")


@pytest.mark.slow
def test_a_profile_prints_as_a_table_of_at_most_80_columns(profile: ns.Profile) -> None:
    lines = repr(profile).splitlines()
    assert max(map(len, lines)) <= 80
    assert len(lines) < 40
    (first,) = [line.split() for line in lines if line.startswith("  layer 1 ") and "█" in line]
    assert first[2] == f"{profile.mad.mean[0].min():.3f}"
    assert f"over {COUNT} images" in repr(profile)


@pytest.mark.slow
def test_a_notebook_shows_a_table_and_a_figure(profile: ns.Profile) -> None:
    shown = profile._repr_html_()
    assert shown.count("<svg") == 2
    assert "<table" in shown
    assert "self-mass</th>" in shown  # a heading that the terminal breaks at its hyphen
    assert f"{profile.mad.mean[2].mean():.3f}" in shown


def test_a_notebook_gets_nothing_but_the_text_from_a_print(
    profile: ns.Profile, monkeypatch: pytest.MonkeyPatch
) -> None:
    displayed: list[object] = []
    fake = ModuleType("IPython.display")
    fake.display = displayed.append  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "IPython", ModuleType("IPython"))
    monkeypatch.setitem(sys.modules, "IPython.display", fake)
    monkeypatch.setattr("rich.console._is_jupyter", lambda: True)
    assert "uniform attention" in repr(profile)
    assert not displayed


def test_metrics_complete_and_profiles_compare(profile: ns.Profile) -> None:
    assert {"mad", "entropy", "to_pandas", "save"} <= set(dir(profile))
    assert profile == profile
    assert profile != profile.in_convention("pixels")
    assert profile != "a profile"


def test_a_saved_profile_is_read_back_with_everything(profile: ns.Profile, tmp_path: Path) -> None:
    path = profile.save(str(tmp_path / "own.safetensors"))
    back = ns.load_profile(str(path))
    assert back == profile
    assert repr(back) == repr(profile)
    assert back.head_names == profile.head_names
    assert back.unavailable == profile.unavailable
    with pytest.raises(UserError, match=r"/missing/own\.safetensors"):
        profile.save(tmp_path / "missing" / "own.safetensors")


def test_a_table_has_a_row_per_head(profile: ns.Profile) -> None:
    table = profile.to_pandas()
    layer, head = 2, 3  # counted from 1
    row = table.loc[(layer, head)]
    values = profile.mad.values[layer - 1][:, head - 1]
    assert len(table) == sum(facts.num_heads for facts in profile.layers)
    assert row["mad"] == pytest.approx(values.mean(), rel=1e-12)
    half = 2.7764451051977987 * values.std(ddof=1) / len(values) ** 0.5  # t of 5 images
    assert row["mad_high"] - row["mad"] == pytest.approx(half, rel=1e-9)
    assert row["offset_2"] == pytest.approx(profile.offset.mean[layer - 1][head - 1][1])
    assert row["name"] == profile.head_names[layer - 1][head - 1]
    assert row["head_diversity"] == pytest.approx(float(profile.head_diversity.mean[layer - 1]))


@pytest.mark.parametrize(("kind", "panels"), [("depth", 2), ("plane", 2), ("heads", 4)])
def test_figures_are_drawn(profile: ns.Profile, kind: str, panels: int) -> None:
    figure = profile.plot(kind)
    assert len(figure.axes) == panels  # a colour bar has axes of its own
    if kind == "depth":
        lines = [line.get_ydata() for line in figure.axes[0].lines]
        means = [mean.mean() for mean in profile.mad.mean]
        assert any(len(line) == 4 and np.allclose(line, means) for line in lines)


def test_a_figure_that_cannot_be_drawn_says_why(profile: ns.Profile) -> None:
    with pytest.raises(UserError, match=r"'plan'.*\bmean plane\b"):
        profile.plot("plan")
    with pytest.raises(UserError, match=r"\bpixels\b.*in_convention\(.paper.\)"):
        profile.in_convention("pixels").plot()


@pytest.mark.slow
def test_own_models_get_the_report(profile: ns.Profile, tmp_path: Path) -> None:
    page = ns.write_report({"ours": profile, "theirs": profile}, str(tmp_path / "r.html"))
    text = page.read_text()
    assert "ours" in text
    assert "theirs" in text
    assert f"{profile.mad.mean[0].mean():.3f}" in text
    twins = ns.write_report([profile, profile], tmp_path / "twins.html").read_text()
    assert "VisionTransformer 2" in twins
    with pytest.raises(UserError, match=r"\bprofiles\b.*\brun folders\b"):
        ns.write_report([profile, tmp_path], tmp_path / "no.html")


def test_one_image_has_means_but_no_intervals() -> None:
    lone = ns.measure_model(ns.create_model("mu"), torch.zeros(1, 3, SIDE, SIDE))
    assert np.isnan(lone.mad.low[0]).all()
    assert np.isfinite(lone.mad.mean[0]).all()
    assert "too few for intervals" in repr(lone)
    assert "too few for intervals" in lone._repr_html_()


@pytest.mark.slow
def test_a_grid_may_be_a_tuple() -> None:
    model, images = ns.create_model("mu"), torch.randn(2, 3, SIDE, SIDE)
    assert ns.measure_model(model, images, grid=(8, 8)) == ns.measure_model(model, images)
    with pytest.raises(UserError, match=r"\(8, 8, 8\).*grid=\(8, 8\)"):
        ns.measure_model(model, images, grid=(8, 8, 8))
