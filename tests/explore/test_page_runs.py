"""The view of runs and studies in a real browser."""

import json
import re

import pytest
from explore.made_runs import write_looked_run, write_study

from nearsight.explore.exploration import Exploration
from nearsight.explore.targets import explore_targets
from nearsight.protocol import spoken_name

DRAWN = "new Promise(done => requestAnimationFrame(() => setTimeout(done)))"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("runs")
    for seed in range(2):
        write_looked_run(root / "runs" / f"baseline-{seed}", "baseline", seed)
        write_looked_run(root / "runs" / f"cutmix-{seed}", "baseline+cutmix", seed)
    (root / "runs" / "broken").mkdir()
    (root / "runs" / "broken" / "run.json").write_text('{"schema_version": 1, "model": 3}')
    write_study(root / "runs" / "study")
    return root / "runs"


@pytest.fixture(scope="module")
def page_file(folder, tmp_path_factory):
    out = tmp_path_factory.mktemp("page") / "runs.html"
    return explore_targets([str(folder)]).write(out)


def names_of(page):
    return page.locator("table.runs tbody th").all_inner_texts()


def test_the_table_filters_by_a_regular_expression(open_page, page_file):
    with open_page(page_file) as page:
        assert len(names_of(page)) == 7
        page.locator("#filter").fill("cutmix-[01]$|BROKEN")  # all facts of a run are one text
        page.evaluate(DRAWN)
        page.wait_for_selector("text=1 of 7 runs")
        page.locator("#filter").fill(r"runs/cutmix-[01]\b|broken")
        page.evaluate(DRAWN)
        assert sorted(name.split()[0] for name in names_of(page)) == [
            "runs/broken", "runs/cutmix-0", "runs/cutmix-1",
        ]  # fmt: skip
        page.locator("#filter").fill("cutmix-[")
        page.wait_for_selector("text=This is not a regular expression yet.")
        assert len(names_of(page)) == 7


def test_a_heading_sorts_and_runs_without_the_number_come_last(open_page, page_file):
    with open_page(page_file) as page:
        heading = page.locator("table.runs thead button", has_text="min MAD")
        for reverse in (False, True):
            heading.click()
            page.evaluate(DRAWN)
            values = page.locator("table.runs tbody tr").evaluate_all(
                "all => all.map(row => [row.querySelector('th').innerText.split(' ')[0],"
                " row.querySelectorAll('td.value')[1].innerText])"
            )
            numbers = [float(x) for _, x in values if x != "–"]
            assert numbers == sorted(numbers, reverse=reverse)
            assert len(set(numbers)) > 2
            assert values[-1] == ["runs/broken", "–"]


def test_grouping_gives_means_over_the_runs_of_a_group(open_page, page_file, folder):
    measured = {}
    for run in sorted(folder.glob("*-[01]")):
        record = json.loads((run / "run.json").read_text())
        measured.setdefault(spoken_name(record["protocol"]["name"]), []).append(
            record["result"]["test_accuracy"]
        )
    with open_page(page_file) as page:
        page.locator("#filter").fill(r"runs/(baseline|cutmix)-")
        page.locator("#group").select_option("protocol")
        page.evaluate(DRAWN)
        rows = page.locator("table.runs tbody tr").all_inner_texts()
        for name, values in measured.items():
            text = next(row for row in rows if row.startswith(f"{name} 2 runs"))
            mean = 100 * sum(values) / 2
            assert f"{mean:.1f} %" in text
            assert f"± {100 * abs(values[0] - values[1]) / 2**0.5:.1f} %" in text
        heading = page.locator("table.runs thead button", has_text="test accuracy")
        for reverse in (False, True):
            heading.click()
            page.evaluate(DRAWN)
            order = sorted(measured, key=lambda name: sum(measured[name]), reverse=reverse)
            assert [name.split(" 2 runs")[0] for name in names_of(page)] == order


def test_two_ticked_runs_are_compared(open_page, page_file):
    with open_page(page_file) as page:
        page.get_by_label("Compare runs/baseline-0").check()
        page.get_by_label("Compare runs/cutmix-1").check()
        table = page.locator(".compare table").inner_text()
        assert "seed\t0\t1" in table
        assert "protocol\tbaseline\tbaseline with CutMix" in table
        accuracy = next(line for line in table.splitlines() if line.startswith("test accuracy"))
        assert accuracy.endswith("11.0 %")
        page.get_by_label("Compare runs/baseline-1").check()  # the second of two, then
        assert "runs/baseline-0" not in page.locator(".compare thead").inner_text()


def test_an_address_holds_the_table(open_page, page_file):
    with open_page(page_file) as page:
        page.locator("#filter").fill("runs/(cutmix|baseline)-")
        page.locator("table.runs thead button", has_text="test accuracy").click()
        page.locator("table.runs thead button", has_text="test accuracy").click()
        page.get_by_label("Compare runs/baseline-0").check()
        page.get_by_label("Compare runs/cutmix-1").check()
        page.wait_for_url(re.compile("cutmix-1"))
        address, rows = page.evaluate("location.hash"), names_of(page)
        table = page.locator(".compare table").inner_text()
    assert len(rows) == 4
    with open_page(page_file, address) as page:
        assert names_of(page) == rows
        assert page.locator(".compare table").inner_text() == table
        assert page.locator("#filter").input_value() == "runs/(cutmix|baseline)-"


def test_learning_curves_are_drawn(open_page, page_file):
    with open_page(page_file) as page:
        canvas = page.locator("#curves canvas")
        assert canvas.count() == 1
        painted = canvas.evaluate(
            "each => each.getContext('2d').getImageData(0, 0, each.width, each.height).data"
            ".filter((x, i) => i % 4 == 3 && x > 0).length"
        )
        assert painted > 500
        assert page.locator("#curves .u-series").count() == 7  # epoch and six runs


def test_effects_and_claims_of_a_study_are_shown(open_page, page_file):
    with open_page(page_file) as page:
        study = page.locator("section[aria-label=Studies]")
        assert "Does it work?" in study.inner_text()
        figure = study.locator("figure.whiskers >> nth=0")
        assert figure.locator("g.apart text").all_text_contents() == ["cutmix"]
        assert figure.locator("g.open text").all_text_contents() == ["autoaugment"]
        zero = float(figure.locator("line.null").get_attribute("x1"))
        places = [float(each.get_attribute("cx")) for each in figure.locator("circle").all()]
        assert places[0] < zero < places[1]
        assert (zero - places[0]) / (places[1] - zero) == pytest.approx(0.2 / 0.05)
        page.locator("#verdict").select_option("holds")
        assert study.locator("table.claims tbody tr").count() == 1
        assert "CutMix lowers it." in study.locator("table.claims tbody").inner_text()


def test_names_of_runs_are_text_and_never_script(open_page, folder, tmp_path):
    nasty = "<img src=x onerror=alert(1)></script><script>alert(2)</script>${alert(3)}"
    exploration = explore_targets([str(folder)])
    row = {**exploration.runs[0], "name": nasty, "protocol": nasty, "note": nasty}
    path = Exploration(nasty, (), (row,), exploration.studies).write(tmp_path / "nasty.html")
    with open_page(path) as page:
        page.on("dialog", lambda dialog: pytest.fail(dialog.message))
        assert page.locator("table.runs tbody th").inner_text().count(nasty) == 2
        assert page.locator("main img").count() == 0
        assert page.locator("h1").inner_text() == nasty


def test_a_thousand_runs_are_filtered_and_sorted(open_page, folder, tmp_path):
    row = explore_targets([str(folder)]).runs[0]
    rows = tuple(
        {**row, "name": f"runs/{i}", "seed": i, "values": {"accuracy": [(i * 617 % 1009) / 1009]}}
        for i in range(1000)
    )
    path = Exploration("many", (), rows).write(tmp_path / "many.html")
    with open_page(path) as page:
        page.locator("#filter").fill("runs/[1-4]7\\d ")
        page.evaluate(DRAWN)
        assert len(names_of(page)) == 40
        page.locator("#filter").fill("")
        page.get_by_role("button", name="test accuracy").click()
        page.evaluate(DRAWN)
        best = sorted(range(1000), key=lambda i: i * 617 % 1009)
        assert names_of(page) == [f"runs/{i}" for i in best[:100]]
        page.get_by_role("button", name="show all 1,000").click()
        assert len(names_of(page)) == 1000
