"""docs/families.md says what the tests test."""

import importlib

import pytest
from measure.layout.families_refused import REFUSED
from measure.layout.families_table import CASES, PAGE, page

from nearsight.measure.coverage.coverage_page import BEGIN
from nearsight.measure.layout.families import FAMILIES
from nearsight.models.load.registry import split_name


def test_the_page_is_what_the_cases_give():
    advice = "run: PYTHONPATH=tests python -m measure.layout.families_table --write"
    before_coverage = PAGE.read_text().partition(BEGIN)[0].rstrip() + "\n"
    assert before_coverage == page(), advice


def test_no_family_is_listed_twice():
    names = [str(case) for case in CASES] + [str(case) for case in REFUSED]
    assert len(names) == len(set(names))


def test_every_timm_example_is_a_name_that_timm_knows():
    import timm

    for case in (*CASES, *REFUSED):
        source, name = split_name(case.example)
        if case.example.startswith("timm/"):
            assert source == "timm"
            assert timm.is_model(name), name


def test_every_class_in_the_table_exists():
    for name in FAMILIES:
        package, _, kind = name.rpartition(".")
        if package.startswith("transformers"):
            pytest.importorskip("transformers", reason="the hf extra is not installed")
        assert hasattr(importlib.import_module(package), kind), name
