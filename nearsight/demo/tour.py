"""The demo: look at four trained models at once, then watch one train, then read the report."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from nearsight.core import UserError
from nearsight.demo.bundle import copy_models

NUM_IMAGES = 64  # test images per model; a demo is to be quick
EPOCHS = 3
DATA = "data"  # folder of the generated images, inside the demo's
PAGE, REPORT, LIVE = "look.html", "report.html", "live"


class Demo(NamedTuple):
    """What a demo wrote, and when after its start the first picture was there."""

    page: Path
    report: Path
    live: Path
    page_seconds: float


def run_demo(
    out: str | Path = "demo",
    *,
    epochs: int = EPOCHS,
    num_images: int = NUM_IMAGES,
    say: Callable[[str], None] = print,
) -> Demo:
    """Measure and show the models that come with nearsight, train one, and write a report.

    Nothing is downloaded: the images of ``shapes`` are generated.

    Args:
        out: The folder to write; what an earlier demo left there is used or replaced.
        epochs: How long the live model trains; about 20 seconds each on one core.
        num_images: Test images that every model is measured on.
        say: Told in sentences what happens and what was written.

    Returns:
        The paths of the explorer page, of the report and of the run that was trained.

    Raises:
        UserError: If ``out`` holds runs that are not the demo's.
    """
    from nearsight.explore import explore_targets, write_report
    from nearsight.measure.folders import measure_run
    from nearsight.protocol import preset
    from nearsight.train import train_run

    began = time.monotonic()
    folder = Path(out)
    data_root = folder / DATA
    models = copy_models(folder)
    data_root.mkdir(exist_ok=True)
    say(f"Measuring {len(models)} small ViTs that were trained before on generated shapes.")
    for model in models:
        measure_run(model, num_images, data_root=data_root)
    shown = explore_targets([str(model) for model in models], data_root=data_root)
    page = shown.write(folder / PAGE)
    seconds = time.monotonic() - began
    say(f"Look at where every head attends ({seconds:.0f} s): open {page}")
    protocol = preset("baseline", "shapes")
    protocol = replace(
        protocol, epochs=epochs, measure_every=1, model=replace(protocol.model, name="nano_vit")
    )
    say(f"Training one from scratch, {epochs} epochs; min MAD is that of its most local head.")
    live = folder / LIVE
    try:
        train_run(protocol, live, data_root=data_root, device="cpu")
    except UserError as error:
        raise UserError(f"{error}; remove {live} to start the demo anew") from error
    measure_run(live, num_images, data_root=data_root)
    report = write_report([*models, live], folder / REPORT)
    say(f"The report of all five ({time.monotonic() - began:.0f} s since the start):")
    return Demo(page, report, live, seconds)
