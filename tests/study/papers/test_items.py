"""Every table and figure of the papers has a recipe whose conditions are its rows, or a reason."""

from __future__ import annotations

import json
import runpy
from pathlib import Path

import pytest

from nearsight.core import UserError
from nearsight.study.claims.all_claims import CLAIMS
from nearsight.study.design import SCALES, recipe, recipes
from nearsight.study.papers import ITEMS, PAPERS, items_of_study, listed_items, recipe_costs
from nearsight.study.papers.item import PaperItem, named_items, table_rows
from nearsight.study.run import study_costs
from nearsight.study.show import cost_text, papers_json

ROOT = Path(__file__).parents[3]
MADE = runpy.run_path(str(ROOT / "docs" / "make_papers.py"))
NAMES = {each.name: each for each in recipes()}
PRINTED = {  # tables and figures that the papers have, as far as our copies do
    "protocol": ({1, 2}, {1, 2, 3, 4, 5}),
    "locat": ({1, 3, 4, 5, 6, 7, 8}, {1, 2, 3, 4, 5, 6}),
    "convit": ({1, 2, 3, 4}, set(range(1, 18))),
}


@pytest.mark.parametrize("paper", PAPERS)
def test_no_table_and_no_figure_is_left_out(paper: str) -> None:
    labels = [item.label.split() for item in ITEMS if item.paper == paper]
    found = [
        {int(number.rstrip("abc")) for kind, number in labels if kind == wanted}
        for wanted in ("table", "figure")
    ]
    assert tuple(found) == PRINTED[paper]


def test_every_item_has_a_recipe_of_ours_or_a_reason() -> None:
    for item in ITEMS:
        assert (item.recipe is None) == bool(item.reason), item.key
        assert all(name in NAMES for name in item.recipes), item.key
        assert item.reason or item.shown or item.rows or item.command, item.key
    assert len({item.key for item in ITEMS}) == len(ITEMS)


@pytest.mark.parametrize("item", [x for x in ITEMS if x.rows], ids=lambda item: item.key)
def test_every_row_of_a_paper_is_one_condition_of_its_recipe(item: PaperItem) -> None:
    found = NAMES[str(item.recipe)]
    if found.needs:
        pytest.skip(f"{found.name} needs {found.needs}")
    conditions = [condition.factors for condition in found.study("paper").conditions]
    for row in item.rows:
        assert sum(row.factors.items() <= x.items() for x in conditions) == 1, row.name
    few = [condition.factors for condition in found.study("laptop").conditions]
    assert any(row.factors.items() <= x.items() for row in item.rows for x in few)


def test_numbers_are_the_papers_gains() -> None:
    """LocAt's text: +6.17, +4.86 and +5.86 mIoU and +1.55 points top-1 for ViT Tiny."""
    (item,) = (x for x in items_of_study("locat-backbones") if x.label == "table 1")
    plain, locat = item.rows[:2]
    gains = [100 * (locat.printed[value] - plain.printed[value]) for value in item.values]
    assert gains == pytest.approx([6.17, 4.86, 5.86, 1.55])
    (sizes,) = (x for x in items_of_study("convit-sizes") if x.label == "table 1")
    each = [100 * row.printed["accuracy"] for row in sizes.rows]
    gained = [round(b - a, 1) for a, b in zip(each[::2], each[1::2])]
    assert gained == [0.9, 0.8, 1.5, 3.2, 0.6, 5.0]  # as the claim convit-accuracy quotes them


def test_rows_that_do_not_fit_are_refused() -> None:
    with pytest.raises(UserError, match=r"\b2\b.*\b1\b.*'ViT"):
        table_rows("ViT | 72.4", ["model", "size"], ["accuracy"])


def test_every_table_or_figure_that_a_claim_is_on_is_an_item() -> None:
    for claim in CLAIMS:
        if any(True for _ in named_items(claim.source)):
            assert any(item.is_source(claim.source) for item in ITEMS), claim.id


def test_the_parts_of_a_source_are_told_apart() -> None:
    source = "ConViT, section 4, figure 8b, tables 1 and 3"
    found = {item.label for item in ITEMS if item.is_source(source)}
    assert found == {"figure 8b", "table 1", "table 3"}


@pytest.mark.slow
def test_the_docs_list_what_the_items_say() -> None:
    message = "run python docs/make_papers.py --costs"
    assert (ROOT / "docs" / "papers.md").read_text() == MADE["page"](), message
    costed = {name for name, each in NAMES.items() if each.scales and not each.needs}
    assert set(recipe_costs()) == costed, message


@pytest.mark.slow
@pytest.mark.parametrize("name", ["convit-grid", "data-size"])
def test_stored_costs_are_what_the_recipes_cost(name: str) -> None:
    for cost in study_costs(recipe(name)):
        stored = recipe_costs()[name][str(cost.scale)]
        assert stored["cells"] == cost.num_cells, "run python docs/make_papers.py --costs"
        assert stored["operations"] == pytest.approx(cost.operations, rel=0.01)


@pytest.mark.parametrize("each", [x for x in recipes() if x.scales], ids=lambda each: each.name)
def test_a_recipe_with_two_scales_says_what_the_laptop_cannot_show(each) -> None:
    assert "cannot" in each.told["Laptop"]
    if each.needs is None:
        small, large = (each.study(scale) for scale in SCALES)
        assert small.primary is not None
        assert {x.protocol.data.name for x in small.conditions} <= {
            "cifar10", "cifar100", "tiny-imagenet",
        }  # fmt: skip
        assert len(small.conditions) <= len(large.conditions)


@pytest.mark.slow
def test_published_results_are_the_state_of_their_items() -> None:
    states = {item.key: found for item, found in listed_items(studies=[])}
    (small,) = (x for x in states["protocol-table-2"] if x.folder.name == "protocol-small")
    assert (small.scale, small.num_seeds, small.num_finished) == ("laptop", 3, 24)
    assert small.decisions["protocol-cutmix"] == "not decided at this scale"
    assert "convit-data" not in small.decisions
    assert states["locat-figure-3"] == []


def test_a_folder_that_is_not_there_is_named() -> None:
    with pytest.raises(UserError, match=r"\bnowhere\b"):
        listed_items([Path("nowhere")])


@pytest.mark.slow
def test_the_list_is_plain_json_with_a_command_for_every_recipe() -> None:
    found = json.loads(json.dumps(papers_json(listed_items(studies=[]))))
    for entry in found:
        assert entry["reason"] or f"study run {entry['recipe']}" in entry["command"]
    assert cost_text(ITEMS[0]).count("/") == 1
