"""``nearsight papers`` in the terminal and as JSON."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from study.example_folders import a_study

Answer = tuple[int, str, str]


@pytest.mark.slow
def test_a_paper_is_listed_with_recipe_cost_and_state(nearsight: Callable[..., Answer]) -> None:
    code, out, _ = nearsight("papers", "--paper", "convit")
    assert code == 0
    (line,) = (line for line in out.splitlines() if line.startswith("figure 8a"))
    assert "convit-grid" in line
    assert "locat-backbones" not in out


@pytest.mark.slow
def test_studies_of_the_user_are_counted(nearsight: Callable[..., Answer], tmp_path: Path) -> None:
    out = a_study(tmp_path / "studies-out" / "mine")
    record = json.loads((out / "study.json").read_text())
    record |= {"study": "protocol-ablation", "scale": "laptop"}
    (out / "study.json").write_text(json.dumps(record))
    for given in ([], ["--studies", str(out)]):  # studies-out is looked at anyway
        code, told, _ = nearsight("papers", "--paper", "protocol", "--json", *given)
        assert code == 0
        (item,) = (x for x in json.loads(told) if x["item"] == "table 2")
        runs = [x for x in item["runs"] if Path(x["folder"]).name == "mine"]
        assert [(x["scale"], x["n"]) for x in runs] == [("laptop", 3)]
