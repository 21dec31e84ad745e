"""Bad inputs of every kind: refused in a sentence or taken rightly; nothing outside, no code run.

``make attack`` tries many thousands of the same kinds.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from attack.all_attacks import ATTACKS, warm
from attack.attack import Attack, attacked
from attack.verdicts import ACCEPTED, REFUSED, time_limit
from hypothesis import HealthCheck, Phase, given, settings

NUM_INPUTS = 12  # of each kind


@pytest.fixture(scope="module", autouse=True)
def _material() -> None:
    warm()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.training
@pytest.mark.parametrize(
    "attack", [x for x in ATTACKS if not x.slow], ids=lambda x: x.name.replace(" ", "-")
)
def test_bad_input_is_refused_in_a_sentence_or_taken_rightly(attack: Attack, tmp_path: Path):
    @settings(
        max_examples=NUM_INPUTS,
        derandomize=True,
        database=None,
        deadline=None,
        phases=(Phase.generate,),
        suppress_health_check=list(HealthCheck),
    )
    @given(attack.cases)
    def each(case: Any) -> None:
        with time_limit():
            found = attacked(attack, case, tmp_path)
        assert found.verdict.what in (ACCEPTED, REFUSED), found.verdict.text
        assert (found.outside, found.started) == ((), ())

    each()
