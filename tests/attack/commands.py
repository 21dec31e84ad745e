"""The commands that are stopped at every write, and what must be right afterwards.

A command works in a folder ``place``. ``begin`` makes what is there before, ``words`` is what a
user types, and ``result`` returns the bytes that have to be the same however often it was stopped.
``whole`` raises unless what can be seen in between is an old or a new result.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

from attack.forked_worker import start_forked_worker
from attack.inputs.archives import FOLDER, cifar_files
from attack.material import data_root, example_runs, images, room, small_protocol, trained

Files = dict[str, bytes]
# Keys of JSON that differ between two equal runs: times, and the hashes of files that have times.
TIMED = ("seconds", "provenance", "started", "files")


@dataclass(frozen=True)
class Stoppable:
    """A command, and how to judge what it left."""

    name: str
    begin: Callable[[Path], None]
    words: Callable[[Path], list[str]]
    result: Callable[[Path], Files]
    whole: Callable[[Path, Files, Files], str | None]  # place, before, after: a problem or None

    def call(self, place: Path) -> Callable[[], int]:
        """Return a function that runs the command in this process."""

        def run() -> int:
            from nearsight.cli.app import main

            os.chdir(place)
            sys.argv = ["nearsight", *self.words(place)]
            with (
                patch("nearsight.study.engines.local.start_worker", start_forked_worker),
                patch("nearsight.study.run.scheduler.POLL_SECONDS", 0.02),
                patch.dict(os.environ, HOME=str(place)),
                drawn_before(),
            ):
                try:
                    main()
                except SystemExit as ended:
                    return int(ended.code or 0)
            return 0

        return run


_DRAWN: dict[tuple[str, ...], Any] = {}  # the figures of the report, by function and key


@contextmanager
def drawn_before() -> Iterator[None]:
    """Take the figures of a report from those that ``warm`` drew, which is ten times as fast.

    They are the same bytes each time; what a kill can damage is how they are written.
    """
    from nearsight.report.write import page

    def remembering(draw: Callable[..., Any]) -> Callable[..., Any]:
        def drawn(drawing: Any, *file_format: str) -> Any:
            key = (draw.__name__, drawing.key, *file_format)
            if key not in _DRAWN:
                _DRAWN[key] = draw(drawing, *file_format)
            return _DRAWN[key]

        return drawn

    with patch.multiple(
        page,
        panel_svgs=remembering(page.panel_svgs),
        whole_figure=remembering(page.whole_figure),
    ):
        yield


def _json_without_times(path: Path) -> bytes:
    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: plain(x) for key, x in value.items() if key not in TIMED}
        return [plain(x) for x in value] if isinstance(value, list) else value

    return json.dumps(plain(json.loads(path.read_bytes())), sort_keys=True).encode()


def _bytes(*names: str) -> Callable[[Path], Files]:
    """Return the contents of files below the place that are there; JSON without its times."""

    def found(place: Path) -> Files:
        paths = {name: place / name for name in names}
        read = {".json": _json_without_times, ".safetensors": _tensors_without_times}
        return {
            name: read.get(path.suffix, Path.read_bytes)(path)
            for name, path in paths.items()
            if path.is_file()
        }

    return found


def _tensors_without_times(path: Path) -> bytes:
    """Return a safetensors file without the seconds that its header has of a measurement."""
    content = path.read_bytes()
    size = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + size])
    header.get("__metadata__", {}).pop("model", None)
    return json.dumps(header, sort_keys=True).encode() + content[8 + size :]


def _set(*changes: str) -> list[str]:
    return [word for change in changes for word in ("--set", change)]


def _train_words(place: Path) -> list[str]:
    settings = small_protocol()
    return [
        "train", "baseline+cutmix", "--data", str(images()), "--model", "mu", "--out", "run",
        "--device", "cpu", "--data-root", str(data_root()), "--threads", "1",
        *_set(f"epochs={settings.epochs}", "warmup_epochs=1", "batch_size=29"),
        *_set("data.image_size=16"),
    ]  # fmt: skip


def _train_whole(place: Path, before: Files, after: Files) -> str | None:
    """A log only grows, and what stands in it is right."""
    log = place / "run" / "train.jsonl"
    if log.is_file() and not after["run/train.jsonl"].startswith(
        log.read_bytes().rpartition(b"\n")[0]
    ):
        return "the log has other lines than that of an unstopped run"
    return None


def _begin_run(place: Path) -> None:
    shutil.copytree(trained(), place / "run")
    (place / "data").mkdir()


def _measure_words(place: Path) -> list[str]:
    return [
        "measure", "run", "--num-images", "5", "--no-nulls", "--force", "--device", "cpu",
        "--data-root", str(data_root()), "--threads", "1",
    ]  # fmt: skip


def _measure_whole(place: Path, before: Files, after: Files) -> str | None:
    from nearsight.measure.folders import folder_difference
    from nearsight.runs import read_measured, read_record

    read_measured(place / "run", read_record(place / "run"))
    folder_difference(place / "run", place / "run")
    return _old_or_new(MEASURED(place), before, after)


MEASURED = _bytes(
    "run/measure.json", "run/measure.safetensors", "run/examples.json", "run/run.json"
)


def _evaluate_words(place: Path) -> list[str]:
    return [
        "evaluate", "run", "--task", "linear", "--data", str(images()), "--device", "cpu",
        "--set", "C=0.3",
        "--data-root", str(place / "data"), "--no-controls", "--threads", "1",
    ]  # fmt: skip


EVALUATED = _bytes("run/evaluate.json", "run/evaluate.npz", "run/run.json")


def _evaluate_whole(place: Path, before: Files, after: Files) -> str | None:
    from nearsight.evaluate.result import read_evaluation

    read_evaluation(place / "run")
    return _old_or_new(EVALUATED(place), before, after)


def _begin_report(place: Path) -> None:
    shutil.copytree(example_runs(), place, dirs_exist_ok=True)
    (place / "page.html").write_text("old")


def _report_words(place: Path) -> list[str]:
    return ["report", "a", "--out", "page.html", "--format", "csv", "--format", "json"]


REPORTED = _bytes("page.html", "page-files/heads.csv", "page-files/report.json")


def _report_whole(place: Path, before: Files, after: Files) -> str | None:
    found = (place / "page.html").read_bytes()
    return None if found in (b"old", after["page.html"]) else "the page is neither old nor new"


RECIPE = '''"""Does it last?"""

from dataclasses import replace

from nearsight.protocol import DataSettings, preset
from nearsight.study.design.recipe_file import Condition, Study

DATA = DataSettings(name="folder:{images}", image_size=16)


def study():
    protocol = preset("baseline", DATA.name, "mu")
    small = replace(protocol, data=DATA, epochs=1, warmup_epochs=0.1, batch_size=29)
    settings = {{"measure": {{"num_images": 5, "nulls": False}}}}
    return Study((Condition({{"x": True}}, small),), num_seeds=1, settings=settings)
'''


def _begin_study(place: Path) -> None:
    (place / "lasting.py").write_text(RECIPE.format(images=images()))


def _study_words(place: Path) -> list[str]:
    return [
        "study", "run", "lasting.py", "--retry-failed", "--out", "study", "--workers", "1",
        "--data-root", str(data_root()),
    ]  # fmt: skip


def _studied(place: Path) -> Files:
    names = ("weights.safetensors", "train.jsonl", "measure.json", "measure.safetensors")
    cells = sorted((place / "study" / "cells").glob("*"))
    return _bytes(*(str((x / name).relative_to(place)) for x in cells for name in names))(place)


def _study_whole(place: Path, before: Files, after: Files) -> str | None:
    from nearsight.study.folder import read_cells, state_of

    if (place / "study" / "study.json").is_file():
        for cell in read_cells(place / "study"):
            state_of(place / "study" / "cells" / cell.key)
    return None


def _begin_import(place: Path) -> None:
    for name, content in cifar_files().items():
        path = place / "given" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def _import_words(place: Path) -> list[str]:
    return ["data", "import", f"given/{FOLDER}", "--data-root", "root"]


IMPORTED = _bytes(*(f"root/{name}" for name in cifar_files()))


def _import_whole(place: Path, before: Files, after: Files) -> str | None:
    found = IMPORTED(place)
    return (
        None if not (place / "root" / FOLDER).exists() or found == after else "half of a data set"
    )


def _old_or_new(found: Files, before: Files, after: Files) -> str | None:
    """Return a problem unless the files are those from before or those from after."""
    wrong = [x for x in found.keys() | after.keys() if found.get(x) != after.get(x)]
    if not wrong or found == before:
        return None
    return f"neither the old nor the new result: {', '.join(sorted(wrong))}"


COMMANDS = (
    Stoppable(
        "train", lambda place: None, _train_words,
        _bytes("run/weights.safetensors", "run/train.jsonl", "run/test-answers.npy"), _train_whole,
    ),
    Stoppable("measure", _begin_run, _measure_words, MEASURED, _measure_whole),
    Stoppable("evaluate", _begin_run, _evaluate_words, EVALUATED, _evaluate_whole),
    Stoppable("report", _begin_report, _report_words, REPORTED, _report_whole),
    Stoppable("study run", _begin_study, _study_words, _studied, _study_whole),
    Stoppable("data import", _begin_import, _import_words, IMPORTED, _import_whole),
)  # fmt: skip


def warm() -> None:
    """Make in this process what the commands share, and load what they import."""
    import nearsight.explore
    import nearsight.report.write
    import nearsight.study.run  # noqa: F401

    trained()
    example_runs()
    cifar_files()
    if not _DRAWN:
        before, words = os.getcwd(), sys.argv
        place = room() / "drawn"
        place.mkdir()
        _begin_report(place)
        (report,) = (x for x in COMMANDS if x.name == "report")
        try:
            with redirect_stdout(io.StringIO()):
                report.call(place)()
        finally:
            os.chdir(before)
            sys.argv = words
