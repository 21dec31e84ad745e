"""The view of heads in a real browser: the plane, brushing, epochs, parts of models."""

import re
from dataclasses import replace
from itertools import combinations

import pytest
from explore.made_pages import made_exploration, made_subject
from explore.made_runs import LOOKS, made_look, part_subject, write_looked_run

from nearsight.explore.exploration import Exploration
from nearsight.explore.shown_model import subject_of_folder

DRAWN = "new Promise(done => requestAnimationFrame(() => setTimeout(done)))"


@pytest.fixture(scope="module")
def looked(tmp_path_factory):
    root = tmp_path_factory.mktemp("looked")
    subject = subject_of_folder(write_looked_run(root / "run"))
    return Exploration("looked", (subject,)).write(root / "page.html"), subject


def shown_values(page, figure):
    """The numbers in the cells of a heat map, by layer.head."""
    cells = page.locator(f"figure.heat >> nth={figure}").locator("g.cell")
    texts = cells.locator("text").all_text_contents()
    names = cells.evaluate_all("all => all.map(each => each.dataset.head)")
    return dict(zip(names, map(float, texts), strict=True))


def test_heat_maps_hold_the_numbers_of_measure_json(open_page, looked):
    path, subject = looked
    with open_page(path, "#v=heads") as page:
        for figure, metric in enumerate(("mad", "entropy", "self_mass")):
            seen = shown_values(page, figure)
            for layer, row in enumerate(subject.numbers[metric]["mean"]):
                for head, value in enumerate(row):
                    assert seen[f"0.{layer + 1}.{head + 1}"] == pytest.approx(value, abs=0.0051)


def test_the_slider_goes_through_the_looks(open_page, looked):
    path, subject = looked
    with open_page(path, "#v=heads") as page:
        for step, epoch in enumerate(LOOKS):
            page.locator("#epoch").fill(str(step))
            page.evaluate(DRAWN)
            assert page.locator(".epochs output").inner_text() == f"epoch {epoch}"
            seen = shown_values(page, 0)
            for layer, row in enumerate(made_look(epoch)["mad"]["mean"]):
                for head, value in enumerate(row):
                    assert seen[f"0.{layer + 1}.{head + 1}"] == pytest.approx(value, abs=0.0051)
        page.locator("#epoch").fill(str(len(LOOKS)))
        page.evaluate(DRAWN)
        assert shown_values(page, 0)["0.1.1"] == pytest.approx(
            subject.numbers["mad"]["mean"][0][0], abs=0.0051
        )


def test_brushing_the_plane_fades_all_other_heads_in_the_heat_maps(open_page, looked):
    path, subject = looked
    numbers = subject.numbers
    with open_page(path, "#v=heads") as page:
        ground = page.locator(".plane .ground").bounding_box()

        def place(mad, entropy):
            x = ground["x"] + ground["width"] * mad / 0.6
            return x, ground["y"] + ground["height"] * (1 - entropy)

        page.mouse.move(*place(0.29, 0.99))
        page.mouse.down()
        page.mouse.move(*place(0.4, 0.4), steps=4)
        page.mouse.up()
        page.evaluate(DRAWN)
        kept = page.locator("figure.heat >> nth=0").locator("g.cell:not(.faded)")
        seen = set(kept.evaluate_all("all => all.map(each => each.dataset.head)"))
        expected = {
            f"0.{layer + 1}.{head + 1}"
            for layer, row in enumerate(numbers["mad"]["mean"])
            for head, mad in enumerate(row)
            if 0.29 <= mad <= 0.4 and 0.4 <= numbers["entropy"]["mean"][layer][head] <= 0.99
        }
        assert 0 < len(expected) < 15
        assert seen == expected
        assert page.locator("details.list summary").inner_text().startswith(str(len(expected)))
        page.wait_for_url(re.compile("box="))
        address = page.evaluate("location.hash")
        page.get_by_role("button", name="clear the brush").click()
        assert page.locator("g.faded").count() == 0
    with open_page(path, address) as page:
        kept = page.locator("figure.heat >> nth=0").locator("g.cell:not(.faded)")
        assert set(kept.evaluate_all("all => all.map(each => each.dataset.head)")) == expected


def test_a_filter_and_an_order_by_number(open_page, looked):
    path, subject = looked
    mads = [x for row in subject.numbers["mad"]["mean"] for x in row]
    with open_page(path, "#v=heads") as page:
        page.get_by_label("MAD at most").fill("0.35")
        page.evaluate(DRAWN)
        kept = page.locator("figure.heat >> nth=0").locator("g.cell:not(.faded)").count()
        assert kept == sum(mad <= 0.35 for mad in mads)
        page.get_by_label("Heads in a layer").select_option("self_mass")
        cells = page.locator("figure.heat >> nth=2").locator("g.cell text").all_text_contents()
        rows = [list(map(float, cells[3 * i : 3 * i + 3])) for i in range(5)]
        assert all(row == sorted(row) for row in rows)
        assert "head, sorted by self-mass" in page.locator("figure.heat >> nth=0").text_content()


def test_null_lines_are_named_at_the_line(open_page, looked):
    path, subject = looked
    with open_page(path, "#v=heads") as page:
        texts = page.locator(".plane text.null").all_text_contents()
        nulls = sorted(subject.numbers["null"], key=lambda line: line["mad"])
        assert texts == [line["name"] for line in nulls] == ["3x3 box", "uniform"]
        lines = page.locator(".plane line.null").evaluate_all(
            "all => all.map(x => +x.getAttribute('x1'))"
        )
        for place, null in zip(lines, nulls, strict=True):
            assert place == pytest.approx(44 + null["mad"] / 0.6 * (460 - 12 - 44), abs=0.01)


def test_names_of_null_lines_do_not_cover_each_other(open_page, looked, tmp_path):
    _, subject = looked
    places = (("random initialisation", 0.41), ("uniform", 0.42), ("x", 0.1))
    first = subject.numbers["null"][0]
    lines = [{**first, "name": name, "mad": mad} for name, mad in places]
    close = replace(subject, numbers={**subject.numbers, "null": lines})
    path = Exploration("close", (close,)).write(tmp_path / "page.html")
    with open_page(path, "#v=heads") as page:
        boxes = [each.bounding_box() for each in page.locator(".plane text.null").all()]
        for one, other in combinations(boxes, 2):
            left, right = sorted((one, other), key=lambda box: box["x"])
            beside = left["x"] + left["width"] <= right["x"]
            above = one["y"] >= other["y"] + 9 or other["y"] >= one["y"] + 9
            assert beside or above


def test_a_click_on_a_head_shows_it_in_the_explorer(open_page, tmp_path):
    path = made_exploration("plain").write(tmp_path / "page.html")
    with open_page(path, "#v=heads") as page:
        page.locator("figure.heat >> nth=1").locator('[data-head="0.2.1"]').click()
        page.wait_for_selector("text=Layer 2, head 1")


def test_gates_of_gpsa_and_widths_of_gaug_are_shown(open_page, tmp_path):
    convit, locat = part_subject("convit"), part_subject("locat")
    path = Exploration("parts", (convit, locat)).write(tmp_path / "page.html")
    with open_page(path, "#v=heads&a=convit&b=locat") as page:
        seen = shown_values(page, 3)
        (gates,) = (x["layers"] for x in convit.numbers["read_outs"])
        assert seen["0.1.1"] == pytest.approx(gates[0][0], abs=0.0051)
        assert "Gate" in page.locator("section.model >> nth=0").inner_text()
        figure = page.locator("section.model >> nth=1").locator("figure.spread >> nth=0")
        assert "Widths of the Gaussians" in figure.inner_text()
        dots = figure.locator("circle").evaluate_all("all => all.map(x => +x.getAttribute('cy'))")
        widths = [layer["mean"] for layer in locat.numbers["read_outs"][0]["layers"]]
        assert len(dots) == len(widths)
        assert (dots[0] > dots[1]) == (widths[0] < widths[1])


def test_one_image_has_numbers_without_intervals(open_page, tmp_path):
    subject = made_subject("plain", shown=1, count=1)
    path = Exploration("one", (subject,)).write(tmp_path / "page.html")
    assert "low" not in subject.numbers["mad"]
    with open_page(path, "#v=heads") as page:
        assert page.locator("figure.heat").count() == 3
        page.locator("details.list summary").click()
        assert " to " not in page.locator("details.list tbody").inner_text()
