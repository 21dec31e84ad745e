"""Figures of a study: ranking, key plane, locality over epochs, and when heads became local."""

import json
import math
import textwrap
from statistics import fmean

import pytest
from matplotlib import rc_context
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from report.example_runs import write_model, write_run
from runs.made_records import looked

from nearsight.measure.catalogue import number_named
from nearsight.protocol import spoken_name
from nearsight.report.figures.drawing import (
    LONGEST_ROW_NAME,
    name_rows,
    panel_svgs,
    row_height,
    settings,
    whole_figure,
)
from nearsight.report.figures.heads.key_conditions import key_conditions, key_plane
from nearsight.report.figures.heads.ranking import least_distances
from nearsight.report.figures.training.emergence_dots import TALL, dot_places, emergence
from nearsight.report.figures.training.locality import locality_course, locality_curves
from nearsight.report.read.grouping import read_families
from nearsight.stats.estimate import over_seeds

KEYS = ("baseline", "modern", "baseline+cutmix", "modern-cutmix")
DEPTH, HEADS = 2, 3


def write_study(root, names, seeds=(0, 1, 2), **changes):
    return [
        write_run(root / f"{name}-{seed}", name, seed, depth=DEPTH, heads=HEADS, **changes)
        for name in names
        for seed in seeds
    ]


def with_looks(folder, maps, entropy=True):
    """``maps``: by epoch, MAD [layer][head]; entropy is twice MAD, self-mass is 0.5 - MAD."""
    path = folder / "train.jsonl"
    lines = [{"schema_version": 1, "epoch": 0, "step": 0}]
    lines += [json.loads(line) for line in path.read_text().splitlines()]
    for line in lines:
        if (mad := maps.get(line["epoch"])) is None:
            continue
        line["attention"] = {"num_images": 7, "mad": {"mean": mad}}
        if entropy:
            line["attention"]["entropy"] = {"mean": [[2 * x for x in layer] for layer in mad]}
            line["attention"]["self_mass"] = {"mean": [[0.5 - x for x in layer] for layer in mad]}
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder


def drawn(drawing, number=0):
    """The axes of a panel as they are drawn."""
    axes = Figure().add_subplot()
    drawing.panels[number].draw(axes)
    return axes


def whiskers(axes):
    """Ends of every whisker, in the order drawn: ((x, y), (x, y))."""
    return [
        [tuple(point) for point in segment]
        for container in axes.containers
        for lines in container[2]
        for segment in lines.get_segments()
    ]


def distances(reach):
    """Mean distance on the 3x5 grid in diagonals, to patches at most ``reach`` away per axis."""
    patches = [(row, col) for row in range(3) for col in range(5)]
    means = []
    for row, col in patches:
        near = [(r, c) for r, c in patches if max(abs(r - row), abs(c - col)) <= reach]
        means.append(fmean(math.hypot(r - row, c - col) for r, c in near))
    return fmean(means) / math.hypot(2, 4)


def test_a_look_gives_the_numbers_of_the_summary_table():
    seen = {
        "num_images": 7,
        "mad": {"mean": [[0.2, 0.4], [0.1, 0.5]]},
        "entropy": {"mean": [[0.6, 0.8], [0.9, 0.1]]},
    }
    (look,) = looked([{"epoch": 3, "attention": seen}, {"epoch": 4}])
    found = [
        look.number(number_named(x)) for x in ("min_mad", "layer1_mad", "entropy", "self_mass")
    ]
    assert found == [0.1, pytest.approx(0.3), pytest.approx(0.6), None]


@pytest.mark.parametrize("num", [1, 5, TALL, TALL + 1, 4 * TALL + 3])
def test_dots_of_one_look_stand_apart_around_their_place(num):
    places = dot_places(num)
    assert len(set(places)) == num
    assert max(abs(down) for _, down in places) <= (TALL - 1) / 2
    rights = {right for right, _ in places}
    assert sum(rights) == 0
    assert len(rights) == math.ceil(num / TALL)


@pytest.mark.slow
def test_emergence_is_a_dot_per_head_and_seed_with_counts_beside_the_rows(tmp_path):
    runs = write_study(tmp_path, ("baseline", "modern"), seeds=(3, 5))
    uniform, box = distances(9), distances(1)
    far, leaning, near = uniform, 0.89 * uniform, (uniform + box) / 2 - 0.001
    for run in runs[:3]:
        with_looks(run, {0: [[far] * 3] * 2, 2: [[far] * 3] * 2, 4: [[far] * 3] * 2})
    last = [[near, leaning, far], [far, near, far]]
    with_looks(runs[3], {0: [[far] * 3] * 2, 2: [[leaning, near, far], [far, near, far]], 4: last})
    (family,) = read_families(runs)
    drawing = emergence(family, "emergence", "words")
    settled = {row[:5]: row[5:] for row in drawing.rows if row[6] != ""}
    limits = {"leaning": pytest.approx(0.9 * uniform), "local": pytest.approx((uniform + box) / 2)}
    assert settled == {
        ("modern", 5, 1, 1, "leaning"): (limits["leaning"], 2, ""),
        ("modern", 5, 1, 2, "leaning"): (limits["leaning"], 2, ""),
        ("modern", 5, 2, 2, "leaning"): (limits["leaning"], 2, ""),
        ("modern", 5, 1, 1, "local"): (limits["local"], 4, ""),
        ("modern", 5, 2, 2, "local"): (limits["local"], 2, ""),
    }
    assert len(drawing.rows) == 2 * 2 * 2 * DEPTH * HEADS
    assert "baseline 0 of 12 heads, modern 3 of 12 heads, half of them by epoch 2" in drawing.alt
    assert "modern 2 of 12 heads" in drawing.alt
    for words in ("10 % below uniform attention", "half-way between uniform", "no interval"):
        assert words in drawing.reading
    texts = [text.get_text() for text in drawn(drawing, 1).texts]
    assert texts == ["0 of 12 heads", "2 of 12 heads"]
    dots = [line.get_xydata()[0] for line in drawn(drawing, 0).lines if line.get_marker() == "o"]
    assert [round(y) for _, y in dots] == [1, 1, 1]
    assert len({tuple(dot) for dot in dots}) == 3
    svgs = panel_svgs(drawing)
    assert "Leaning: MAD below" in svgs[0]
    assert "Local: MAD below" in svgs[1]


def test_emergence_tells_identity_heads_from_local_ones_and_leaves_out_unread_layers(tmp_path):
    (run,) = write_study(tmp_path, ("modern",), seeds=(3,))
    far, near = distances(9), 0.01
    with_looks(run, {0: [[far] * 3] * 2, 4: [[near, near, far], [near, near, near]]})
    lines = [json.loads(line) for line in (run / "train.jsonl").read_text().splitlines()]
    last = next(line for line in lines if line["epoch"] == 4)
    last["attention"]["self_mass"]["mean"][0] = [0.9, 0.2, 0.1]
    (run / "train.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    measured = json.loads((run / "measure.json").read_text())
    measured["layers"][1]["unread"] = True
    (run / "measure.json").write_text(json.dumps(measured))
    (family,) = read_families([run])
    drawing = emergence(family, "emergence", "words")
    assert "modern 2 of 3 heads, 1 identity" in drawing.alt
    assert [row[7] for row in drawing.rows] == ["yes", "", ""] * 2
    markers = [line.get_marker() for line in drawn(drawing, 1).lines]
    assert markers.count("D") == 1
    assert markers.count("o") == 1


@pytest.mark.slow
def test_figures_over_epochs_need_looks_and_name_conditions_without(tmp_path):
    runs = write_study(tmp_path, ("baseline", "modern"), seeds=(0,))
    (family,) = read_families(runs)
    assert emergence(family, "emergence", "") is None
    assert locality_curves(family, "locality", "") is None
    with_looks(runs[0], {0: [[0.4] * 3] * 2})
    (family,) = read_families(runs)
    for figure in (emergence, locality_curves):
        drawing = figure(family, "x", "")
        assert drawing.reading.endswith("while training: modern.")
        assert {row[0] for row in drawing.rows} == {"baseline"}
        assert panel_svgs(drawing)


def test_locality_over_epochs_is_a_mean_over_the_seeds_that_all_looked(tmp_path):
    runs = write_study(tmp_path, ("baseline",))
    for seed, run in enumerate(runs):
        low = 0.2 + 0.05 * seed**2
        maps = {0: [[0.5] * 3] * 2, 2: [[0.4, 0.5, 0.6 + 0.3 * seed], [low, 0.5, 0.5]]}
        with_looks(run, maps if seed == 1 else maps | {4: [[0.1] * 3] * 2})
    runs += write_study(tmp_path, ("modern",), seeds=(0,))
    with_looks(runs[3], {0: [[0.5] * 3] * 2, 4: [[0.3, 0.2, 0.4], [0.4, 0.4, 0.1]]})
    (family,) = read_families(runs)
    drawing = locality_curves(family, "locality", "words")
    assert locality_course(family.conditions[0], number_named("min_mad")) == {
        0: [0.5] * 3,
        2: pytest.approx([0.2, 0.25, 0.4]),
    }
    titles = [panel.title for panel in drawing.panels]
    assert titles == [
        "min MAD", "layer-1 mean MAD", "mean entropy", "mean self-mass",
        "most local head's self-mass",
    ]  # fmt: skip
    rows = {row[:3]: row[3:] for row in drawing.rows}
    x = over_seeds([0.2, 0.25, 0.4])
    assert rows["baseline", "min_mad", 2] == (*map(pytest.approx, (x.value, x.low, x.high)), 3)
    assert rows["baseline", "layer1_mad", 2][0] == pytest.approx(fmean([0.5, 0.6, 0.7]))
    assert rows["modern", "min_mad", 4] == (0.1, "", "", 1)
    assert rows["modern", "entropy", 4][0] == pytest.approx(0.6)
    assert rows["modern", "self_mass", 4][0] == pytest.approx(0.2)
    assert "modern 0.500 in epoch 0 and 0.100 in epoch 4" in drawing.alt
    assert "intervals over seeds" in drawing.reading
    assert drawing.subtitle == "words · 7 validation images"
    axes = [drawn(drawing, number) for number in range(5)]
    assert {x.get_xlim() for x in axes} == {(0, 4)}
    assert [len(x.collections) for x in axes] == [1] * 5  # one band: one condition has seeds
    band = axes[0].collections[0].get_paths()[0].vertices
    assert min(band[:, 1]) == pytest.approx(x.low)
    assert axes[3].lines[0].get_ydata()[0] == pytest.approx(1 / 15)  # uniform on 3x5 patches
    assert axes[2].lines[0].get_ydata()[0] == pytest.approx(1)
    assert {"uniform", "3x3 box", "modern"} <= {text.get_text() for text in axes[0].texts}


def test_numbers_that_no_look_holds_have_no_panel(tmp_path):
    (run,) = write_study(tmp_path, ("baseline",), seeds=(0,))
    with_looks(run, {0: [[0.5] * 3] * 2, 2: [[0.3] * 3] * 2}, entropy=False)
    (family,) = read_families([run])
    drawing = locality_curves(family, "locality", "")
    assert [panel.title for panel in drawing.panels] == ["min MAD", "layer-1 mean MAD"]
    assert "no interval" in drawing.reading
    assert len(drawn(drawing).collections) == 0


@pytest.mark.slow
def test_conditions_are_ranked_by_their_most_local_head_with_whiskers_over_seeds(tmp_path):
    runs = write_study(tmp_path, ("baseline", "modern", "baseline+autoaugment"))
    (family,) = read_families(runs)
    drawing = least_distances(family, "ranking", "words")
    values = {c.label: [run.scalars["min_mad"].value for run in c.runs] for c in family.conditions}
    order = sorted(values, key=lambda label: fmean(values[label]))
    assert order[0] == "modern"  # the one with CutMix
    axes = drawn(drawing)
    assert [text.get_text() for text in axes.get_yticklabels()] == [
        textwrap.fill(label, LONGEST_ROW_NAME) for label in order
    ]
    assert axes.yaxis_inverted()
    assert axes.get_xlim() == (0, 0.6)
    for row, (label, ends) in enumerate(zip(order, whiskers(axes), strict=True)):
        x = over_seeds(values[label])
        assert ends == [pytest.approx((x.low, row)), pytest.approx((x.high, row))]
    marks = [container[0].get_marker() for container in axes.containers]
    assert marks == ["o", "^", "^"]
    assert [text.get_text() for text in axes.texts] == ["uniform", "3x3 box"]
    lines = [line.get_xdata()[0] for line in axes.lines[:2]]
    assert lines == [pytest.approx(distances(9)), pytest.approx(distances(1))]
    assert "intervals over seeds" in drawing.reading
    assert f"intervals: modern {fmean(values['modern']):.3f} (" in drawing.alt
    assert "With CutMix" in drawing.alt
    assert [row[2] for row in drawing.rows if row[0] == "modern"] == ["mean", 0, 1, 2]
    assert whole_figure(drawing, "png").startswith(b"\x89PNG")


def test_a_ranking_of_single_seeds_says_that_whiskers_are_over_images(tmp_path):
    runs = write_study(tmp_path, ("baseline", "modern", "baseline+autoaugment"), seeds=(0,))
    (family,) = read_families(runs)
    drawing = least_distances(family, "ranking", "")
    assert "intervals over images" in drawing.reading
    assert "intervals over seeds" not in drawing.reading
    x = family.conditions[1].runs[0].scalars["min_mad"]
    assert drawing.rows[0] == ("modern", True, 0, x.value, x.low, x.high, x.n, "images")
    (two,) = read_families(runs[:2])
    assert least_distances(two, "ranking", "") is None


def test_long_names_of_rows_do_not_run_into_each_other():
    labels = [f"nano_vit by baseline with CutMix (epochs={n}, warmup_epochs=0.3)" for n in (3, 12)]
    with rc_context(settings("names")):
        figure = Figure(figsize=(4.1, row_height(labels) * len(labels)))
        FigureCanvasAgg(figure)
        axes = figure.add_axes((0.4, 0, 0.6, 1))
        name_rows(axes, labels)
        figure.draw_without_rendering()
    first, second = (text.get_window_extent() for text in axes.get_yticklabels())
    assert first.height > 30  # several lines
    assert first.y0 >= second.y1


def test_a_ranking_of_models_does_not_speak_of_cutmix(tmp_path):
    folders = [write_model(tmp_path / f"{seed}", f"vit_{seed}", seed) for seed in (0, 1, 2)]
    (family,) = read_families(folders)
    drawing = least_distances(family, "ranking", "")
    assert "CutMix" not in drawing.reading + drawing.alt


def test_the_key_plane_shows_all_heads_and_means_with_whiskers_both_ways(tmp_path):
    (family,) = read_families(write_study(tmp_path, (*reversed(KEYS), "modern-autoaugment")))
    drawing = key_plane(family, "key-plane", "words")
    conditions = {c.label: c for c in key_conditions(family)}
    assert tuple(conditions) == tuple(map(spoken_name, KEYS))
    heads = [row for row in drawing.rows if row[1] != "mean"]
    assert len(heads) == 4 * 3 * DEPTH * HEADS
    found = iter(whiskers(axes := drawn(drawing)))
    for label in conditions:
        mads, entropies = (
            over_seeds(
                [fmean(row[at] for row in heads if row[:2] == (label, seed)) for seed in (0, 1, 2)]
            )
            for at in (4, 7)
        )
        assert next(found) == [
            pytest.approx((mads.low, entropies.value)), pytest.approx((mads.high, entropies.value)),
        ]  # fmt: skip
        assert next(found) == [
            pytest.approx((mads.value, entropies.low)), pytest.approx((mads.value, entropies.high)),
        ]  # fmt: skip
        assert f"{label} MAD {mads.value:.3f} ({mads.low:.3f} to {mads.high:.3f})" in drawing.alt
    faint = [line for line in axes.lines if line.get_alpha() == pytest.approx(0.35)]
    looks = {(line.get_color(), line.get_marker()) for line in faint}
    assert looks == {(c.colour, c.marker) for c in conditions.values()}
    assert sum(len(line.get_xdata()) for line in faint) == len(heads)
    assert {"uniform", "3x3 box"} <= {text.get_text() for text in axes.texts}
    assert "intervals over seeds" in drawing.reading


def test_the_key_plane_needs_three_of_the_four_each_once(tmp_path):
    runs = write_study(tmp_path, KEYS[:3], seeds=(0,))
    (family,) = read_families(runs[:2])
    assert key_plane(family, "key-plane", "") is None
    (family,) = read_families(runs)
    drawing = key_plane(family, "key-plane", "")
    assert "intervals over images" in drawing.reading
    summary = family.conditions[0].runs[0].measure.contents()["summary"]["mean_mad"]
    means = [row for row in drawing.rows if row[1] == "mean"]
    assert means[0][4:7] == (summary["value"], summary["low"], summary["high"])
    twin = write_study(tmp_path / "other", ("modern",), seeds=(0,), model="nano_vit")
    (family,) = read_families([*runs, *twin])
    assert len(family.conditions) == 4
    assert key_plane(family, "key-plane", "") is None
