"""No module names a part of a model but its own rooms and tables of names."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

import nearsight

PACKAGE = Path(nearsight.__file__).parent
MODULES = {path.relative_to(PACKAGE).as_posix(): path for path in sorted(PACKAGE.rglob("*.py"))}
WORDS = re.compile(
    r"gpsa|\bpsa\b|gaug|\bprr\b|convit|gaussian(?!_blur)|locat(?!e|i|o)|(?<![a-z])gates?(?![a-z])",
    re.IGNORECASE,
)

OWN = (  # the parts' own files, room by room
    "models/parts/locat/",
    "models/parts/gpsa/",
    "protocol/locat_settings.py",
    "protocol/gpsa_settings.py",
    "report/read/part_records.py",
    "report/figures/parts/",
    "report/write/parts/",
)
TABLES = {  # tables of names, and what they list
    "__init__.py": "the front door",
    "models/parts/all_parts.py": "parts",
    "measure/readouts/__init__.py": "functions of the front door",
    "measure/readouts/by_name.py": "functions of the front door",
    "measure/layout/families.py": "classes of timm",
    "measure/localise/": "kinds of locality that --localise takes",
    "measure/metrics/convention.py": "conventions, one of a paper",
    "protocol/__init__.py": "settings",
    "protocol/schema.py": "settings of a model",
    "protocol/deit.py": "presets",
    "protocol/locat_presets.py": "presets",
    "protocol/dino_preset.py": "presets",
    "protocol/presets.py": "presets",
    "protocol/preset_listing.py": "presets",
    "models/zoo/__init__.py": "names of models",
    "models/zoo/names.py": "names of models",
    "models/zoo/own.py": "ends of names of models",
    "models/zoo/architectures.py": "classes of named models",
    "models/zoo/locat_models.py": "classes of named models",
    "models/zoo/convit_models.py": "classes of named models",
    "models/zoo/jumbo.py": "classes of named models",
    "models/cost/model_tables.py": "what ends of names mean",
    "report/read/__init__.py": "types of what parts have learned",
    "report/read/grouping.py": "settings at their defaults",
    "report/read/published_scores.py": "numbers of the papers",
    "report/figures/localise/": "kinds of locality that --localise takes",
    "report/write/answer.py": "ends of names of models",
    "study/design/settings.py": "kinds of models",
    "evaluate/tasks/segmentation/": "methods of the papers",
    "study/claims/": "claims of the papers",
    "study/design/__init__.py": "protocols of recipes",
    "study/design/designs.py": "protocols of recipes",
    "study/papers/": "tables and figures of the papers",
    "study/show/paper_items.py": "tables and figures of the papers",
    "study/show/paper_list.py": "names of recipes in examples",
    "study/run/training_cost.py": "settings that change no operation",
    "study/analyse/evaluated.py": "methods of the papers",
    "study/analyse/__init__.py": "numbers that claims are about",
    "study/analyse/results.py": "numbers that claims are about",
    "cli/": "names of models in examples",
}
ALLOWED = (*OWN, *TABLES)


def docstring_lines(tree: ast.AST) -> Iterator[int]:
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for node in ast.walk(tree):
        if isinstance(node, kinds) and ast.get_docstring(node, clean=False) is not None:
            first = node.body[0]
            yield from range(first.lineno, (first.end_lineno or first.lineno) + 1)


def words_in(source: str) -> list[str]:
    """Names and texts that mention a part; docstrings and comments may cite papers."""
    cited = set(docstring_lines(ast.parse(source)))
    return [
        f"line {token.start[0]}: {token.string}"
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type != tokenize.COMMENT
        and token.start[0] not in cited
        and WORDS.search(token.string)
    ]


@pytest.mark.parametrize("name", [x for x in MODULES if not x.startswith(ALLOWED)])
def test_a_module_does_not_name_a_part(name: str) -> None:
    assert words_in(MODULES[name].read_text()) == []


@pytest.mark.parametrize("place", ALLOWED)
def test_what_may_name_parts_does(place: str) -> None:
    named = [x for x in MODULES if x.startswith(place) and words_in(MODULES[x].read_text())]
    assert named, f"nothing in {place} names a part any more: take it off the list"


def test_the_search_finds_names_and_texts_but_no_citations() -> None:
    source = '"""GPSA is cited."""\nlocated = 1  # GAug\nadd_locat(x, "with GPSA", propagates)\n'
    assert words_in(source) == ["line 3: add_locat", 'line 3: "with GPSA"']
