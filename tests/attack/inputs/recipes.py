"""Study recipes that are wrong, checkpoints and decoded sets that are damaged."""

from __future__ import annotations

import json
import shutil
from functools import cache
from pathlib import Path
from typing import Any

from attack.attack import Attack
from attack.command_line import command
from attack.inputs.damage import NASTY_TEXT, PLAIN, byte_damages, damaged_bytes
from attack.material import data_root, images, room, small_protocol
from attack.verdicts import ACCEPTED, Verdict, unnoticed, verdict_of
from hypothesis import strategies as some

RECIPE = '''"""{question}"""

from dataclasses import replace

from nearsight.protocol import preset
from nearsight.study.design.recipe_file import Condition, Study


def study():
    protocol = replace(preset("baseline", "folder:{images}", "mu"), epochs=2)
    return {study}
'''
STUDIES = (
    "Study(({condition},), num_seeds={value})", "Study(({condition},), stages={value})",
    "Study(({condition},), settings={value})", "Study(({condition},), processes={value})",
    "Study(({condition},), primary={value})", "Study(({condition},), virtual_patience={value})",
    "Study({value})", "Study(({value},))", "{value}", "1 / 0", "undefined", "study()",
    "Study((Condition({value}, protocol),))", "Study((Condition({{'f': {value}}}, protocol),))",
    "Study((Condition({{{value}: True}}, protocol),))", "Study((Condition({{}}, {value}),))",
    "Study((Condition({{'x': True}}, replace(protocol, epochs={value})),))",
    "Study(({condition},), settings={{'measure': {{'num_images': {value}}}}})",
    "Study(({condition},), settings={{'measure': {{'metrics': {value}}}}})",
    "Study(({condition},), settings={{'evaluate': {value}}})",
)  # fmt: skip
VALUES = some.one_of(
    PLAIN.map(repr),
    some.sampled_from(NASTY_TEXT).map(repr),
    some.sampled_from(
        ("()", "[]", "{}", "{'x': 1}", "('train',)", "('train', 'measure')", "('measure',)",
        "object()",
         "protocol", "lambda: 1", "['[/x]']", "{'train': {}}", "1 << 80", "float('nan')", "type",
         "b'x'")
    ),
)  # fmt: skip
QUESTIONS = some.one_of(
    some.just("Which?"), some.sampled_from(("", " ", "[/x]", "\\x1b[2J", "Needs: x"))
)
RECIPE_COMMANDS = (("study", "plan"), ("study", "list"))


def _recipe(case: tuple[str, str, str, int], place: Path) -> Verdict:
    """Write a recipe, and plan it."""
    question, study, value, number = case
    condition = "Condition({'x': True}, protocol)"
    text = study.replace("{condition}", condition).replace("{value}", value)
    text = text.replace("{{", "{").replace("}}", "}")
    content = RECIPE.replace("{question}", question).replace("{images}", str(images()))
    (place / "mine.py").write_text(content.replace("{study}", text), errors="surrogatepass")
    root = ("--data-root", str(data_root()))
    if number == 0:
        return command("study", "plan", "mine.py", *root)
    return command("study", "list", "--recipes", str(place))


def _source(case: list, place: Path) -> Verdict:
    """Damage the text of a recipe."""
    content = RECIPE.replace("{question}", "Which?").replace("{images}", str(images()))
    content = content.replace("{study}", "Study((Condition({'x': True}, protocol),))")
    text = content.encode()
    for damage in case:
        text = damaged_bytes(text, damage)
    (place / "mine.py").write_bytes(text)
    return command("study", "plan", "mine.py", "--data-root", str(data_root()))


@cache
def _checkpoints() -> Path:
    """Return the folder of two checkpoints of a run."""
    from nearsight.train.loop import train_run
    from nearsight.train.reporter import Reporter

    kept = room() / "checkpoints"
    if not kept.is_dir():
        import nearsight.train.checkpoint as module

        real = module.save_checkpoint
        import nearsight.train.journal as journal

        def saved(folder: Path, *given: Any) -> Path:
            path = real(folder, *given)
            shutil.copytree(path, kept / path.name, dirs_exist_ok=True)
            return path

        holder = journal if hasattr(journal, "save_checkpoint") else module
        holder.save_checkpoint = saved  # type: ignore[attr-defined]
        try:
            train_run(
                small_protocol(), room() / "kept", device="cpu", data_root=data_root(),
                reporter=Reporter(quiet=True),
            )  # fmt: skip
        finally:
            holder.save_checkpoint = real  # type: ignore[attr-defined]
    return kept


def _checkpoint(case: tuple[str, list], place: Path) -> Verdict:
    """Damage the newest checkpoint: the one before is taken, and every byte of it is right."""
    from nearsight.train.checkpoint import STATE, TENSORS, load_checkpoint

    name, damages = case
    folder = place / "checkpoint"
    names = sorted(x.name for x in _checkpoints().iterdir())[-2:]
    for each in names:
        shutil.copytree(_checkpoints() / each, folder / each)
    path = folder / names[-1] / (TENSORS if name == "tensors" else STATE)
    before = after = path.read_bytes()
    for damage in damages:
        after = damaged_bytes(after, damage)
    path.write_bytes(after)
    verdict = verdict_of(lambda: load_checkpoint(folder, lambda text: None))
    if verdict.what != ACCEPTED:
        return verdict
    if verdict.value is None:
        return unnoticed("no checkpoint was taken, though the older one is whole")
    _, state = verdict.value
    wanted = [json.loads((_checkpoints() / x / STATE).read_text())["state"] for x in names]
    if after != before and state == wanted[-1] and state != wanted[0] and name == "tensors":
        return unnoticed("damaged tensors were taken")
    if state not in wanted:
        return unnoticed("a state was taken that nobody wrote")
    return verdict


def _decoded(case: tuple[str, list], place: Path) -> Verdict:
    """Damage a decoded data set: it is decoded again, or refused, and never used as it is."""
    from nearsight.data.sets import load_dataset

    name, damages = case
    shutil.copytree(data_root(), place / "data")
    cache_of = [
        x
        for x in (place / "data" / ".nearsight-cache").iterdir()
        if x.name.startswith("folder-") and x.is_dir()
    ]
    whole = load_dataset(small_protocol().data, data_root()).hash
    for folder in cache_of:
        path = folder / name
        content = path.read_bytes()
        for damage in damages:
            content = damaged_bytes(content, damage)
        path.write_bytes(content)
    verdict = verdict_of(lambda: _pixels(load_dataset(small_protocol().data, place / "data")))
    if verdict.what == ACCEPTED and verdict.value != (whole, _pixels_of_whole()):
        return unnoticed(f"a decoded set with a damaged {name} was used")
    return verdict


def _pixels(dataset: Any) -> tuple[str, int]:
    return dataset.hash, int(dataset.train.images[:].astype("int64").sum())


@cache
def _pixels_of_whole() -> int:
    from nearsight.data.sets import load_dataset

    return _pixels(load_dataset(small_protocol().data, data_root()))[1]


DAMAGES = some.lists(byte_damages(), min_size=1, max_size=2)
ATTACKS = (
    Attack(
        "recipes",
        some.tuples(QUESTIONS, some.sampled_from(STUDIES), VALUES, some.sampled_from((0, 0, 0, 1))),
        _recipe,
        share=4,
    ),
    Attack("texts of recipes", DAMAGES, _source, share=2),
    Attack(
        "checkpoints", some.tuples(some.sampled_from(("tensors",
        "state")), DAMAGES), _checkpoint, share=5
    ),
    Attack(
        "decoded data sets",
        some.tuples(some.sampled_from(("manifest.json", "train.images", "test.labels")), DAMAGES),
        _decoded,
        share=3,
    ),
)  # fmt: skip


def warm() -> None:
    """Load what a first attempt would load."""
    _checkpoints()
    _pixels_of_whole()
