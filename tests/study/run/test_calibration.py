"""How long a study takes: cells side by side, by hand, and what the number assumes."""

import pytest

from nearsight.protocol.presets import preset
from nearsight.study.design.plan import cells_of
from nearsight.study.design.recipe_file import Condition, Study
from nearsight.study.run import calibration
from nearsight.study.run.calibration import assumptions, study_seconds
from nearsight.study.run.runner import Plan, expected_seconds
from nearsight.study.show.study_tables import print_plan


@pytest.mark.parametrize(
    ("work", "workers", "processes", "cores", "seconds"),
    [
        ([7, 3, 5], 2, 1, 2, 8),  # 3 and 5 after another beside 7
        ([7, 3, 5], 5, 1, 8, 7),  # no more workers than cells
        ([6, 6], 1, 3, 4, 4),  # each in 2
        ([6, 6], 2, 3, 4, 3),  # 6 processes on 4 cores: each cell has 2
        ([6, 6], 2, 1, 1, 12),  # one core: as one after the other
        ([6], 1, 4, 2, 3),  # never faster than the cores
        ([], 2, 2, 2, 0),
    ],
)
def test_the_time_of_a_study_solved_by_hand(work, workers, processes, cores, seconds):
    assert study_seconds(work, workers, processes, cores) == pytest.approx(seconds)


def test_what_is_assumed_is_said_where_it_matters():
    assert assumptions(2, 1, 2).endswith("without measuring")
    assert assumptions(1, 2, 2).endswith("that 2 processes per cell share its work evenly")
    assert assumptions(2, 3, 5).endswith("that 6 processes on 5 cores are no faster than 5")
    assert assumptions(2, 1, 1).endswith("that 2 processes on 1 core are no faster than 1")


def test_a_plan_takes_the_processes_of_its_cells_into_account(monkeypatch, capsys):
    monkeypatch.setattr(calibration, "num_cores", lambda: 4)
    monkeypatch.setattr("nearsight.study.run.num_cores", lambda: 4)
    monkeypatch.setattr(calibration, "epoch_seconds", lambda *_: 2.0)
    protocol = preset("baseline", "shapes")
    for processes, seconds in ((1, 60 * protocol.epochs), (2, 30 * protocol.epochs)):
        study = Study((Condition({"a": 1.0}, protocol),), processes=processes)
        cells = tuple(cells_of(study, range(30), {"shapes": "aa"}, "cpu"))
        plan = Plan("thirty", cells, ("waiting",) * 30)
        assert expected_seconds(plan, 1) == pytest.approx(seconds)
    print_plan(plan, 5.0, workers=3)
    said = " ".join(capsys.readouterr().out.split())
    assert "30 of 30 cells to run" in said
    assert "with 3 at a time" in said
    assert "6 processes on 4 cores" in said
