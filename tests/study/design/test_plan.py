"""Plans: keys that hash what decides the numbers, recipes from files, the state of a folder."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from runs.made_records import run_contents

from nearsight.core import UserError
from nearsight.core.locks import hold_lock
from nearsight.protocol.presets import preset
from nearsight.study.design.designs import BACKBONES, convit_protocol, cross_factors, locat_protocol
from nearsight.study.design.plan import Software, cells_of
from nearsight.study.design.recipe_file import Condition, Study, read_recipe, recipe, recipes
from nearsight.study.folder import (
    CELL,
    FAILED,
    cell_folder,
    fail,
    failure,
    read_cell,
    read_cells,
    read_study,
    reuse,
    scale_in,
    state_of,
    write_study,
)

BASELINE, CUTMIX = preset("baseline", "shapes"), preset("baseline+cutmix", "shapes")
TWO = Study((Condition({"cutmix": False}, BASELINE), Condition({"cutmix": True}, CUTMIX)))


def cells(study: Study = TWO, seeds=(0, 1), data_hash: str = "aa", device: str = "cpu"):
    return cells_of(study, seeds, {"shapes": data_hash}, device)


def finish(folder: Path) -> None:
    """What train and measure leave, in short."""
    (folder / "run.json").write_text(json.dumps(run_contents()))
    (folder / "measure.json").write_text("{}")


def test_every_condition_comes_once_per_seed_and_seeds_come_one_after_another():
    found = [(cell.factors["cutmix"], cell.seed) for cell in cells()]
    assert found == [(False, 0), (True, 0), (False, 1), (True, 1)]
    assert cells()[1].label == "cutmix on, seed 0"


def test_keys_change_with_everything_that_decides_the_numbers_and_with_nothing_else():
    first = cells()[0]
    assert first.key == cells()[0].key
    renamed = Study((Condition({"mixing": "none"}, BASELINE),))
    assert cells(renamed)[0].key == first.key  # what a factor is called decides nothing
    slower = replace(BASELINE, optimizer=replace(BASELINE.optimizer, lr=1e-5))
    others = [
        cells()[1], cells()[2], cells(data_hash="bb")[0], cells(device="cuda")[0],
        cells(replace(TWO, settings={"measure": {"num_images": 7}}))[0],
        cells(replace(TWO, settings={"measure": {"metrics": ("mad",)}}))[0],
        cells(replace(TWO, settings={"train": {"compiled": True}}))[0],
        cells(replace(TWO, stages=("train", "measure", "causal")))[0],
        cells(replace(TWO, processes=2))[0],
        cells(Study((Condition({"cutmix": False}, slower),)))[0],
        *(
            replace(first, software=replace(first.software, **change))
            for change in (
                {"torch": "0.1"}, {"timm": "0.1"}, {"kernel": not first.software.kernel},
                {"numbers": first.software.numbers + 1},
            )
        ),
    ]  # fmt: skip
    keys = {cell.key for cell in others}
    assert len(keys) == len(others)
    assert first.key not in keys


@pytest.mark.parametrize(
    ("name", "key"), [("baseline", "23b9b36fe0773f03"), ("convit", "1c365cf7069eaacb")]
)
def test_a_setting_that_came_later_leaves_the_keys_of_older_cells_alone(name: str, key: str):
    """The keys were computed before the protocol had schedules."""
    (cell,) = cells(Study((Condition({"a": 1.0}, preset(name, "shapes")),)), seeds=[0])
    then = Software("2.9.0", "1.0.20", True, 3)
    cell = replace(cell, software=then, stages={"train": {"compiled": False}})
    assert cell.key == key
    rates = replace(cell.protocol.optimizer, schedule="triangular")
    assert replace(cell, protocol=replace(cell.protocol, optimizer=rates)).key != key


def test_a_setting_at_its_default_is_the_same_cell():
    spelt_out = {"measure": {"num_images": None, "batch_size": 64, "convention": "paper"}}
    assert cells(replace(TWO, settings=spelt_out))[0].key == cells()[0].key


def test_a_short_name_and_a_fitted_warmup_are_the_same_cell():
    short = replace(BASELINE, epochs=3, model=replace(BASELINE.model, name="mu"))
    (cell,) = cells(Study((Condition({"a": 1.0}, short),)), seeds=[0])
    assert cell.protocol.model.name == "mu_vit"
    assert cell.protocol.warmup_epochs == pytest.approx(0.3)


def test_a_cell_comes_back_from_its_file(tmp_path: Path):
    write_study(tmp_path, "two", cells())
    assert read_cells(tmp_path) == cells()
    assert read_study(tmp_path).study == "two"


def test_more_seeds_and_conditions_add_to_a_folder_and_change_nothing_in_it(tmp_path: Path):
    write_study(tmp_path, "two", cells(seeds=[0]))
    file = cell_folder(tmp_path, cells()[0]) / CELL
    before = file.stat().st_mtime_ns
    write_study(tmp_path, "two", cells(seeds=[0, 1, 2]))
    assert len(read_cells(tmp_path)) == 6
    assert file.stat().st_mtime_ns == before


def test_the_state_of_a_cell_is_read_from_its_folder(tmp_path: Path):
    write_study(tmp_path, "two", cells())
    folder = cell_folder(tmp_path, cells()[0])
    assert state_of(folder) == "waiting"
    with hold_lock(folder / "worker.lock", "worker"):
        assert state_of(folder) == "running"
    (folder / "queued").touch()
    assert state_of(folder) == "waiting"  # its runner is gone
    with hold_lock(tmp_path / "queue.lock", "runner"):
        assert state_of(folder) == "queued"
        with hold_lock(folder / "worker.lock", "worker"):
            assert state_of(folder) == "running"
    (folder / "queued").unlink()
    fail(folder, "the loss became nan")
    assert (state_of(folder), failure(folder)) == ("failed", "the loss became nan")
    (folder / FAILED).unlink()
    (folder / "run.json").write_text(json.dumps(run_contents(status="running", result=None)))
    assert state_of(folder) == "stopped"
    finish(folder)
    assert state_of(folder) == "finished"


def test_finished_cells_of_another_study_are_copied_whole_and_only_when_asked(tmp_path: Path):
    one, other = tmp_path / "one", tmp_path / "other"
    write_study(one, "two", cells())
    renamed = [replace(cell, factors={"mixed": cell.factors["cutmix"]}) for cell in cells()]
    write_study(other, "two", renamed)
    finish(cell_folder(other, cells()[2]))
    assert state_of(cell_folder(one, cells()[2])) == "waiting"
    assert reuse(one, cells(), other) == [cells()[2].key]
    assert state_of(cell_folder(one, cells()[2])) == "finished"
    assert state_of(cell_folder(other, cells()[2])) == "finished"
    assert read_cell(cell_folder(one, cells()[2])) == cells()[2]


def test_a_second_holder_of_a_folder_is_refused(tmp_path: Path):
    again = hold_lock(tmp_path / "lock", "runner")
    with (
        hold_lock(tmp_path / "lock", "runner"),
        pytest.raises(UserError, match=r"\brunner\b.*/test_"),
        again,
    ):
        pass


def test_studies_that_compare_nothing_are_refused():
    twice = (Condition({"cutmix": False}, BASELINE), Condition({"cutmix": True}, BASELINE))
    with pytest.raises(UserError, match="cutmix off, seed 0 and cutmix on, seed 0"):
        cells(Study(twice))
    with pytest.raises(UserError, match=r"\bconditions\b.*\blevels\b"):
        Study((*TWO.conditions, TWO.conditions[0]))
    with pytest.raises(UserError, match="same factors"):
        Study((TWO.conditions[0], Condition({"mixup": True}, CUTMIX)))
    with pytest.raises(UserError, match=r"\bseed\b"):
        cells(seeds=[])


def test_every_recipe_of_ours_tells_what_it_asks_and_costs():
    for each in recipes():
        assert each.question.endswith("?"), each.name
        needed = {"Command", "Hardware", "Time", "Expected"}
        assert needed <= each.told.keys(), each.name
        if each.needs is None:
            assert len(each.study().conditions) >= 2


def test_a_wrong_recipe_is_answered_in_a_sentence(tmp_path: Path):
    with pytest.raises(UserError, match=r"'quik'.*\bmean quick\b"):
        recipe("quik")
    with pytest.raises(UserError, match=r"nowhere\.py"):
        recipe("nowhere.py")
    (tmp_path / "broken.py").write_text("1 / 0")
    with pytest.raises(UserError, match=r"/broken\.py .*\bZeroDivisionError: division by zero"):
        read_recipe(tmp_path / "broken.py")
    (tmp_path / "silent.py").write_text("def study():\n    pass\n")
    with pytest.raises(UserError, match=r"/silent\.py .*\bdocstring\b.*\bstudy\(\)"):
        read_recipe(tmp_path / "silent.py")
    (tmp_path / "later.py").write_text('"""Why?\n\nNeeds: dense\n  features\n"""\nstudy = print\n')
    later = read_recipe(tmp_path / "later.py")
    assert later.needs == "dense features"
    with pytest.raises(UserError, match=r"\blater\b.*\bdense features\b"):
        later.study()


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ("raise KeyError('x')", r".*KeyError: 'x'"),
        ("return 5", r".*\bint\b.*\bnearsight\.study\.design\.Study\b"),
    ],
)
def test_a_recipe_that_gives_no_study_is_named_in_one_sentence(tmp_path, body, sentence):
    file = tmp_path / "mine.py"
    file.write_text(f'"""A question?"""\ndef study():\n    {body}\n')
    with pytest.raises(UserError, match=rf"\bmine\b{sentence}"):
        read_recipe(file).study()


SCALED = '''"""Does it scale?"""
from nearsight.protocol import preset
from nearsight.study.design import Condition, Study, shorten

def study(scale):
    whole = preset("baseline", "shapes")
    small = shorten(whole, "mu_vit", data="shapes")
    return Study((Condition({"x": False}, small if scale == "laptop" else whole),))
'''


def test_a_recipe_has_the_scales_that_its_function_takes(tmp_path: Path):
    (tmp_path / "scaled.py").write_text(SCALED)
    found = read_recipe(tmp_path / "scaled.py")
    assert found.scales == ("laptop", "paper")
    large, small = (found.study(x).conditions[0].protocol for x in ("paper", "laptop"))
    assert found.study().conditions[0].protocol == large
    assert (small.model.name, small.epochs, small.data.fraction) == ("mu_vit", 5, 0.2)
    with pytest.raises(UserError, match=r"\bquick\b.*--scale laptop"):
        recipe("quick").study("laptop")


def test_a_folder_keeps_the_scale_that_it_was_begun_at(tmp_path: Path):
    (tmp_path / "scaled.py").write_text(SCALED)
    found, out = read_recipe(tmp_path / "scaled.py"), tmp_path / "out"
    assert scale_in(out, found, None) == "paper"
    assert scale_in(None, found, "laptop") == "laptop"
    laptop = found.study("laptop")
    write_study(out, "scaled", cells(laptop, seeds=(0,)), scale="laptop")
    assert read_study(out).scale == "laptop"
    assert scale_in(out, found, None) == scale_in(out, found, "laptop") == "laptop"
    with pytest.raises(UserError, match=r"/out .*\bscaled\b.*\blaptop\b.*--out\b.*\bpaper\b"):
        scale_in(out, found, "paper")
    assert scale_in(out, recipe("quick"), None) is None


def test_every_combination_of_levels_is_a_condition():
    found = cross_factors({"name": ["modern", "baseline"], "data": ["cifar10", "shapes"]}, preset)
    assert [tuple(x.factors.values()) for x in found] == [
        ("modern", "cifar10"), ("modern", "shapes"), ("baseline", "cifar10"),
        ("baseline", "shapes"),
    ]  # fmt: skip
    assert all(x.protocol == preset(**x.factors) for x in found)


def test_models_with_and_without_locat_differ_in_nothing_else():
    for backbone in BACKBONES:
        one, other = (
            locat_protocol("locat", "imagenet", backbone, "Base", locat) for locat in (True, False)
        )
        assert replace(other, model=replace(other.model, locat=None)) == one
        assert (one.distillation is not None) == (backbone == "Jumbo")
        assert one.model.drop_path == 0.4


def test_a_plus_model_trains_at_its_own_rate_and_batch():
    plus, usual = (
        convit_protocol("convit", "imagenet", f"convit_{x}") for x in ("base_plus", "base")
    )
    assert (plus.batch_size, plus.optimizer.lr) == (512, 4e-4)
    assert (usual.batch_size, usual.optimizer.lr) == (1024, 1e-3)
    assert plus.cutmix == usual.cutmix
