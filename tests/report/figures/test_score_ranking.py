"""Models of different grids in one ranking, and what --metrics all shows."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest
import torch

import nearsight as ns
from nearsight.core import Screen
from nearsight.explore.profile_views import profile_families, profile_files
from nearsight.report.figures.heads.score_ranking import score_ranking
from nearsight.report.write.tables import all_heads, head_table
from nearsight.report.write.terminal_table import kinds_text, print_folders, score_table


@pytest.fixture(scope="module")
def profiles() -> dict[str, ns.Profile]:
    torch.manual_seed(4)
    images = torch.randn(5, 3, 32, 32)
    small, large = (
        ns.create_model("mu", num_classes=3, image_size=side, patch_size=4)
        for side in (32, (12, 20))
    )
    return {
        "square": ns.measure_model(small, images, metrics="all"),
        "wide": ns.measure_model(large, torch.randn(5, 3, 12, 20), metrics="all"),
    }


def expected_score(profile: ns.Profile) -> float:
    uniform = profile.grid.uniform_distance()
    read = [mad for mad, facts in zip(profile.mad.mean, profile.layers) if not facts.unread]
    heads = [1 - mad / uniform for layer in read for mad in layer]
    return sum(heads) / len(heads)


@pytest.mark.slow
def test_models_of_two_grids_are_ranked_by_score(profiles: dict[str, ns.Profile]) -> None:
    drawing = score_ranking(profile_families(profiles))
    assert drawing is not None
    expected = sorted(map(expected_score, profiles.values()), reverse=True)
    assert [row[1] for row in drawing.rows] == pytest.approx(expected, abs=1e-9)
    assert score_ranking(profile_families({"square": profiles["square"]})) is None


@pytest.mark.slow
def test_the_terminal_ranks_and_the_page_has_the_figure(
    profiles: dict[str, ns.Profile], tmp_path: Path
) -> None:
    files = [profile_files(x, name) for name, x in profiles.items()]
    screen = Screen(width=80, record=True, file=io.StringIO())
    print_folders(files, screen)
    assert "measured on different images" not in screen.export_text()  # both have 5 images
    table = score_table(files)
    assert table is not None
    first = max(profiles, key=lambda name: expected_score(profiles[name]))
    assert next(iter(table.records()))["name"] == f"1. {first}"
    page = ns.write_report(profiles, tmp_path / "two.html").read_text()
    assert "All models by score, whatever their grid" in page


@pytest.mark.slow
def test_other_images_are_told_and_names_keep_their_width(profiles: dict[str, ns.Profile]) -> None:
    few = ns.measure_model(ns.create_model("mu"), torch.randn(3, 3, 32, 32))
    named = {"a-name-of-20-letters": profiles["square"], "few": few}
    screen = Screen(width=80, record=True, file=io.StringIO())
    print_folders([profile_files(x, name) for name, x in named.items()], screen)
    shown = screen.export_text()
    assert "different images" in " ".join(shown.split())
    assert shown.splitlines()[3].startswith("a-name-of-20-letters 0.")
    assert max(map(len, shown.splitlines())) <= 80


def test_head_names_sinks_and_nmi_are_in_terminal_page_and_csv(
    profiles: dict[str, ns.Profile],
) -> None:
    profile = profiles["square"]
    (family,) = profile_families({"square": profile})
    run = family.first
    rows = list(csv.DictReader(all_heads([family]).csv().splitlines()))
    assert [row["kind"] for row in rows] == [x for layer in profile.head_names for x in layer]
    assert float(rows[1]["sink"]) == pytest.approx(profile.sink.mean[0][1], abs=1e-12)
    assert float(rows[1]["nmi"]) == pytest.approx(profile.nmi.mean[0][1], abs=1e-12)
    assert profile.head_names[0][0] in head_table(run).html()
    told = kinds_text(profile_files(profile))
    assert profile.head_names[0][0] in told
    assert "mean NMI" in told
