"""Check that the memory of training does not grow with the epochs.

    python benchmarks/memory.py [EPOCHS]

Is the resident memory after the last epoch the same as after epoch 2? The script trains `mu` by
Modern on a tenth of `shapes` in a temporary folder and prints the resident memory after every
epoch. At the end it prints the growth, and for comparison the size of the one chunk of images that
is held in memory. It takes a minute on one core.
"""

from __future__ import annotations

import resource
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from nearsight.protocol.presets import preset
from nearsight.protocol.schema import DataSettings, ModelSettings
from nearsight.train.batches import CHUNK
from nearsight.train.loop import train_run
from nearsight.train.reporter import Reporter


def resident_megabytes() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 1e6


class MemoryReporter(Reporter):
    """Prints the resident memory after every epoch."""

    seen: list[float]

    def epoch(self, line: dict[str, Any], seconds: float, images_per_second: float) -> None:
        self.seen.append(resident_megabytes())
        print(f"epoch {line['epoch']:3d}  {self.seen[-1]:7.1f} MB")


def main() -> None:
    epochs = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    reporter = MemoryReporter(quiet=True)
    reporter.seen = []
    protocol = replace(
        preset("modern", "shapes"),
        data=DataSettings(name="shapes", validation_fraction=0.9),
        model=ModelSettings(name="mu_vit"),
        epochs=epochs,
        patience=None,
    )
    with tempfile.TemporaryDirectory() as folder:
        train_run(protocol, Path(folder) / "run", device="cpu", reporter=reporter)
    growth = reporter.seen[-1] - reporter.seen[1]
    print(f"growth from epoch 2 to {epochs}: {growth:+.1f} MB; a chunk of {CHUNK} images is 3.1 MB")


if __name__ == "__main__":
    main()
