"""Run the demo: explore four trained models, train a fifth, and write a report of all five."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from nearsight.core import UserError
from nearsight.demo.bundle import copy_models

NUM_IMAGES = 64  # test images per model; few, so that the demo is quick
EPOCHS = 3
DATA = "data"  # folder inside the demo's folder for the generated images
PAGE, REPORT, LIVE = "look.html", "report.html", "live"


class Demo(NamedTuple):
    """The files that a demo wrote, and the seconds from its start until the page was written."""

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
        out: The folder to write. Files of an earlier demo are reused or replaced.
        epochs: Train the fifth model for this many epochs (about 20 seconds each on one core).
        num_images: Measure every model on this many test images.
        say: Called with a sentence about each step and each file written.

    Returns:
        The paths of the explorer page, the report and the newly trained run.

    Raises:
        UserError: If ``out`` contains runs that are not the demo's.
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
    say(f"Measuring {len(models)} small ViTs, trained earlier on generated images of shapes.")
    for model in models:
        measure_run(model, num_images, data_root=data_root)
    shown = explore_targets([str(model) for model in models], data_root=data_root)
    page = shown.write(folder / PAGE)
    seconds = time.monotonic() - began
    say(f"To see where each head attends, open {page} (written after {seconds:.0f} s).")
    protocol = preset("baseline", "shapes")
    protocol = replace(
        protocol, epochs=epochs, measure_every=1, model=replace(protocol.model, name="nano_vit")
    )
    say(
        f"Training another one from scratch for {epochs} epochs. The column min MAD shows the mean "
        "attention distance of its most local head."
    )
    live = folder / LIVE
    try:
        train_run(protocol, live, data_root=data_root, device="cpu")
    except UserError as error:
        raise UserError(f"{error}; or delete {live} to start the demo again") from error
    measure_run(live, num_images, data_root=data_root)
    report = write_report([*models, live], folder / REPORT)
    say(f"Wrote a report of all five models ({time.monotonic() - began:.0f} s since the start):")
    return Demo(page, report, live, seconds)
