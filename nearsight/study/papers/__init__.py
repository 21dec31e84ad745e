"""List every table and figure of the three papers: its recipe, its numbers, and its state."""

from __future__ import annotations

from nearsight.study.papers.all_items import ITEMS, items_of_study
from nearsight.study.papers.item import PAPERS, ItemRow, PaperItem
from nearsight.study.papers.states import ItemState, listed_items, recipe_costs

__all__ = [
    "ITEMS",
    "PAPERS",
    "ItemRow",
    "ItemState",
    "PaperItem",
    "items_of_study",
    "listed_items",
    "recipe_costs",
]
