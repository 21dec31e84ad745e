"""Write docs/papers.md and the costs of all recipes, from the papers' tables and figures.

Run ``python docs/make_papers.py`` after you change an item of ``nearsight/study/papers`` or
``results/``, and with ``--costs`` after you change a recipe: this builds every model of every
recipe without weights, which takes half a minute. A test fails when page or costs are not current.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from nearsight.study.design import recipes
from nearsight.study.papers import listed_items
from nearsight.study.run import study_costs
from nearsight.study.show import papers_page

HERE = Path(__file__).parent
PAGE = HERE / "papers.md"
COSTS = HERE.parent / "nearsight" / "study" / "papers" / "costs.json"


def costs() -> dict[str, dict[str, dict[str, float]]]:
    """Count cells and operations of every recipe that has two scales."""
    return {
        recipe.name: {
            str(cost.scale): {
                "cells": cost.num_cells, "operations": float(f"{cost.operations:.3g}")
            }
            for cost in study_costs(recipe)
        }
        for recipe in recipes()
        if recipe.scales and not recipe.needs
    }  # fmt: skip


def page() -> str:
    """Return the page from the items, the costs as they are stored, and results/."""
    return papers_page(listed_items(studies=[]))


if __name__ == "__main__":
    if "--costs" in sys.argv:
        COSTS.write_text(json.dumps(costs(), indent=1) + "\n")
        print(COSTS)
    PAGE.write_text(page())
    print(PAGE)
