"""Small studies of coloured squares, and disturbances of their workers."""

from __future__ import annotations

import os
import signal
import threading
import time
from dataclasses import replace
from pathlib import Path
from types import ModuleType

from nearsight.protocol.presets import preset
from nearsight.protocol.schema import DataSettings, ModelSettings
from nearsight.runs.files import LOG, read_log
from nearsight.study.design.plan import Cell
from nearsight.study.design.recipe_file import Condition, Recipe, Study
from nearsight.study.folder import write_study
from nearsight.study.run.runner import plan_cells

EPOCHS = 23


def made_recipe(
    root: Path, rates: tuple[float, ...] = (1e-3,), num_seeds: int = 1, processes: int = 1
) -> Recipe:
    data = DataSettings(name=f"folder:{root}", image_size=16)
    base = replace(
        preset("baseline", data.name), data=data, model=ModelSettings(name="mu"), epochs=EPOCHS,
        patience=None, warmup_epochs=0, batch_size=29,
    )  # fmt: skip
    conditions = tuple(
        Condition({"rate": rate}, replace(base, optimizer=replace(base.optimizer, lr=rate)))
        for rate in rates
    )
    module = ModuleType("rates")
    module.study = lambda: Study(  # type: ignore[attr-defined]
        conditions,
        num_seeds=num_seeds,
        settings={"measure": {"num_images": 5}},
        processes=processes,
    )
    return Recipe("rates", "Do rates differ?", {}, module)


def written_cells(root: Path, out: Path, **given) -> list[Cell]:
    cells = list(plan_cells(made_recipe(root, **given), data_root=root.parent).cells)
    write_study(out, "rates", cells)
    return cells


def worker_of(folder: Path) -> int | None:
    """The process at work in a cell's folder, not one of torchrun's ranks."""
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if b"nearsight.study.run.cell" in words and str(folder).encode() in words:
            return int(entry.name)
    return None


def parent_of(process: int) -> int:
    status = Path(f"/proc/{process}/status").read_text()
    return int(status.split("PPid:")[1].split()[0])


def disturb(folder: Path, number: signal.Signals, parent: bool) -> threading.Thread:
    """Send a signal to a cell's worker, or to what started it, when three epochs are done."""

    def strike() -> None:
        end = time.monotonic() + 120
        while time.monotonic() < end:
            if (folder / LOG).is_file() and len(read_log(folder)) > 2:
                worker = worker_of(folder)
                assert worker is not None
                os.kill(parent_of(worker) if parent else worker, number)
                return
            time.sleep(0.05)

    thread = threading.Thread(target=strike)
    thread.start()
    return thread
