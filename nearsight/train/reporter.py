"""Show the progress of a run: as a bar in a terminal, and as a line per epoch elsewhere."""

from __future__ import annotations

import time
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from nearsight.core import clock

REFRESH_SECONDS = 0.2


class Reporter:
    """Print progress to stderr, so that stdout has only the path of the run."""

    def __init__(self, quiet: bool = False) -> None:
        self.console = Console(stderr=True, quiet=quiet, highlight=False)
        self.bar: Progress | None = None

    def note(self, text: str) -> None:
        """Print a line."""
        self.console.print(text, markup=False, soft_wrap=True)

    def start(self, name: str, num_epochs: int, num_steps: int, first: int) -> None:
        """Start to show progress.

        Args:
            name: The name of the run.
            num_epochs: The number of epochs.
            num_steps: The number of steps of an epoch.
            first: The number of steps that were done before.
        """
        self.name = name
        self.num_epochs, self.num_steps, self.done = num_epochs, num_steps, first
        self.began, self.began_at, self.drawn = time.monotonic(), first, 0.0
        self.validation = ""
        console = self.console
        if console.is_terminal and not console.is_dumb_terminal and not console.quiet:
            self.bar = Progress(
                BarColumn(bar_width=18), TextColumn("{task.description}"), console=self.console
            )
            self.task = self.bar.add_task("", total=num_epochs * num_steps, completed=first)
            self.bar.start()

    def step(self, epoch: int, loss: float, batch_size: int) -> None:
        """Show that one more step is done.

        Args:
            epoch: The current epoch.
            loss: The mean loss over the batches of all processes.
            batch_size: The number of images in these batches.
        """
        self.done += 1
        now = time.monotonic()
        if self.bar is None or now - self.drawn < REFRESH_SECONDS:
            return
        self.drawn = now
        per_second = (self.done - self.began_at) / (now - self.began)
        left = (self.num_epochs * self.num_steps - self.done) / per_second
        text = (
            f"epoch {epoch}/{self.num_epochs}  {per_second * batch_size:.0f} img/s  "
            f"{clock(left)} left  loss {loss:.3f}{self.validation}"
        )
        self.bar.update(self.task, completed=self.done, description=text)

    def epoch(
        self, line: dict[str, Any], score: str, seconds: float, images_per_second: float
    ) -> None:
        """Show the result of an epoch: a line, or the end of the bar."""
        locality = ""
        if seen := line.get("attention"):
            locality = f"  min MAD {min(min(heads) for heads in seen['mad']['mean']):.3f}"
        self.validation = f"  {score}{locality}"
        if self.bar is not None:
            return
        left = (self.num_epochs - line["epoch"]) * seconds
        star = "  best so far" if line["best"] else ""
        self.note(
            f"{self.name}  epoch {line['epoch']:3d}/{self.num_epochs}  "
            f"loss {line['train_loss']:.4f}  {score}{locality}  "
            f"{images_per_second:.0f} img/s  at most {clock(left)} left{star}"
        )

    def close(self) -> None:
        """Remove the bar."""
        if self.bar is not None:
            self.bar.stop()
            self.bar = None
