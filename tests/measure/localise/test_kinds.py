"""What --localise takes, and what it refuses."""

import pytest

from nearsight.core import UserError
from nearsight.measure.localise import Locality, read_locality


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("gaussian:1@last3", Locality("gaussian", 1.0, "last3")),
        ("gaussian", Locality("gaussian", 1.0, "last3")),
        ("window:5@4,6", Locality("window", 5, "4,6")),
        ("outside:3@all+keep-share", Locality("outside", 3, "all", True)),
        ("identity@last", Locality("identity", 1.0, "last")),
        ("sinks:8@2-3", Locality("sinks", 8, "2-3")),
    ],
)
def test_a_text_is_read_and_written_back(text, expected):
    assert read_locality(text) == expected
    assert read_locality(str(expected)) == expected


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("gausian:1", r"'gausian'.*\bmean gaussian\b"),
        ("gaussian:wide", "'wide'"),
        ("gaussian:0@last3", r"\bgaussian:0\b.*\bwindow:1\b"),
        ("gaussian:nan", r"\bgaussian:nan\b"),
        ("window:4", r"\bwindow:4\b.*\bodd\b"),
        ("window:2.5", r"\bwindow:2\.5\b.*\bodd\b"),
        ("gaussian:1@", "gaussian:1@"),
        ("gaussian:1+share", r"gaussian:1\+share"),
        ("identity:2", "identity:2"),
        ("identity+keep-share", r"\bidentity\b.*\+keep-share"),
    ],
)
def test_what_cannot_be_meant_is_refused_in_words(text, problem):
    with pytest.raises(UserError, match=problem):
        read_locality(text)


@pytest.mark.parametrize(
    ("layers", "expected"),
    [("last2", [5, 6]), ("last", [6]), ("all", list(range(7))), ("7,2-3, 3", [1, 2, 6])],
)
def test_layers_are_counted_from_1_and_chosen_once(layers, expected):
    assert Locality(layers=layers).choose_layers(7) == expected


@pytest.mark.parametrize("layers", ["last8", "last0", "0", "8", "3-2", "one", "", "1-", "2,,3"])
def test_layers_that_the_model_has_not_are_refused(layers):
    with pytest.raises(UserError, match="layers 1 to 7"):
        Locality(layers=layers).choose_layers(7)
