"""Show the progress of a study: a live table in a terminal, otherwise a line per event.

An engine may keep a cell in a queue, so a cell counts as started once its worker holds its lock.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from nearsight.core import clock
from nearsight.runs.records import TIMING_FILE
from nearsight.study.design import Cell
from nearsight.study.folder import at_work, cell_folder, epochs_done, failure, is_finished

LOOK_SECONDS = 1.0


class Watcher:
    """Show progress on stderr; in a terminal, as a table that is redrawn in place."""

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Console(stderr=True, highlight=False)
        self.live: Live | None = None
        self.looked = 0.0
        self.at_work: set[str] = set()  # keys of the running cells, when last checked

    def begin(self, out: Path, cells: Sequence[Cell]) -> None:
        """Start to show the state of a study."""
        self.out, self.cells = Path(out), list(cells)
        self.done = {cell.key for cell in cells if is_finished(cell_folder(out, cell))}
        self.lost = {cell.key for cell in cells if failure(cell_folder(out, cell))}
        if self.console.is_terminal and not self.console.is_dumb_terminal:
            self.live = Live(console=self.console, transient=True, auto_refresh=False)
            self.live.start()

    def note(self, text: str) -> None:
        """Print a line."""
        self.console.print(text, markup=False, soft_wrap=True)

    def queued(self, cell: Cell) -> None:
        """Show that the engine has a cell."""
        self.lost.discard(cell.key)
        if self.live is None:
            self.note(f"queued    {cell.label}")

    def finished(self, cell: Cell) -> None:
        """Show that a cell is finished."""
        self.done.add(cell.key)
        if self.live is None:
            self.note(f"finished  {cell.label} ({len(self.done)} of {len(self.cells)})")

    def failed(self, cell: Cell, reason: str) -> None:
        """Show that a cell failed, and why."""
        self.lost.add(cell.key)
        self.note(f"failed    {cell.label}: {reason}")

    def look(self, given: Sequence[Cell]) -> None:
        """Check at most once a second which cells are running; redraw the table or print a line."""
        now = time.monotonic()
        if now - self.looked < LOOK_SECONDS:
            return
        self.looked, before = now, self.at_work
        running = [cell for cell in given if at_work(cell_folder(self.out, cell))]
        self.at_work = {cell.key for cell in running}
        if self.live is not None:
            self.live.update(self._draw(running, len(given) - len(running)), refresh=True)
            return
        for cell in running:
            if cell.key not in before:
                self.note(f"started   {cell.label}")

    def end(self) -> None:
        """Stop showing the state."""
        if self.live is not None:
            self.live.stop()
            self.live = None

    def _draw(self, running: Sequence[Cell], num_queued: int) -> Group:
        table = Table(box=None, pad_edge=False, show_header=False)
        for cell in running:
            epochs, total = epochs_done(cell_folder(self.out, cell)), cell.protocol.epochs
            bar = ProgressBar(total=total, completed=epochs, width=18)
            table.add_row(bar, f"{epochs}/{total}", Text(cell.label, overflow="ellipsis"))
        counts = f"{len(self.done)} of {len(self.cells)} cells finished"
        if num_queued:
            counts += f", {num_queued} queued"
        if self.lost:
            counts += f", {len(self.lost)} failed"
        return Group(Text(f"{counts}; {self._left()}"), table)

    def _left(self) -> str:
        """Estimate the remaining time from the mean pace so far, without early stopping."""
        todo = [x for x in self.cells if x.key not in self.done and x.key not in self.lost]
        left = sum(cell.protocol.epochs - epochs_done(cell_folder(self.out, cell)) for cell in todo)
        seconds = [
            line.seconds
            for cell in self.cells
            for line in TIMING_FILE.read_lines(cell_folder(self.out, cell))
        ]
        if not seconds or not self.at_work:
            return "the time left is not known yet"
        return f"at most {clock(left * sum(seconds) / len(seconds) / len(self.at_work))} left"
