"""Whole files and folders that are damaged: made once per process, outside every guarded folder."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from dataclasses import replace
from functools import cache
from pathlib import Path

from made_data import write_coloured_folder

from nearsight.protocol.presets import preset
from nearsight.protocol.schema import DataSettings, ModelSettings, Protocol


@cache
def room() -> Path:
    """Return a folder that is removed when the process that made it ends."""
    folder, owner = Path(tempfile.mkdtemp(prefix="attack-")), os.getpid()
    atexit.register(lambda: os.getpid() == owner and shutil.rmtree(folder, ignore_errors=True))
    return folder


@cache
def images() -> Path:
    """Return an image folder of 3 classes, 16 x 16 pixels: a run of ``mu`` takes about a second."""
    write_coloured_folder(room() / "images")
    return room() / "images"


def small_protocol(epochs: int = 2) -> Protocol:
    """Return settings of a run that is done in about a second."""
    return replace(
        preset("baseline+cutmix", f"folder:{images()}"),
        data=DataSettings(name=f"folder:{images()}", image_size=16),
        model=ModelSettings(name="mu_vit"),
        epochs=epochs,
        warmup_epochs=1,
        batch_size=29,
    )


@cache
def trained() -> Path:
    """Return a finished run that was measured and evaluated."""
    from nearsight.evaluate.evaluation import evaluate_run
    from nearsight.measure.folders.run_folder import measure_run
    from nearsight.train.loop import train_run
    from nearsight.train.reporter import Reporter

    out = room() / "trained"
    train_run(
        small_protocol(), out, device="cpu", data_root=data_root(), reporter=Reporter(quiet=True)
    )
    measure_run(out, num_images=7, data_root=data_root(), nulls=False)
    evaluate_run(out, tasks="linear", options={"C": 0.1}, data_root=data_root(), controls=False)
    return out


@cache
def data_root() -> Path:
    """Return a folder for decoded data sets."""
    (room() / "data").mkdir()
    return room() / "data"


@cache
def example_runs() -> Path:
    """Return a folder with two made-up runs, ``a`` and ``b``, and a measured model ``m``."""
    from report.example_runs import write_model, write_run

    folder = room() / "runs"
    write_run(folder / "a", "baseline", 0, depth=2)
    write_run(folder / "b", "baseline+cutmix", 0, depth=2)
    write_model(folder / "m", depth=2)
    return folder


@cache
def example_study() -> Path:
    """Return the folder of a made-up study of four conditions and three seeds."""
    from study.example_folders import a_study

    return a_study(room() / "study")
