"""Terminal output: a console of at most 80 columns, text that is safe to print, a progress bar."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

MEGABYTE = 1_000_000
MAX_WIDTH = 80
# Control characters except tab and newline, and the marks that reorder text.
UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def printable(text: str) -> str:
    r"""Replace control characters, with which a name could move the cursor or change colours.

    >>> printable("mad\x1b[2J_vit")
    'mad�[2J_vit'
    """
    return UNPRINTABLE.sub("\ufffd", text)


class Screen(Console):
    """A console for tables and plain sentences."""

    def say(self, text: str, style: str | None = None) -> None:
        """Print text as it is: no markup, no control characters."""
        self.print(printable(text), style=style, markup=False)


def console() -> Screen:
    """Open standard output as a console of at most 80 columns."""
    return Screen(highlight=False, width=min(Console().width, MAX_WIDTH))


@contextmanager
def counting(title: str, megabytes: bool = False) -> Iterator[Callable[..., None]]:
    """Show a bar and yield a function to call with (done, of how many).

    A third argument names a step that is not the one of ``title``. The bar is gone when the block
    ends.
    """
    if not sys.stderr.isatty():
        yield lambda done, total, step=None: None
        return
    from rich.progress import TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(bar_width=24), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(title, total=None)

        def count(done: int, total: int | None, step: str | None = None) -> None:
            unit = MEGABYTE if megabytes else 1
            of = f"/{total // unit}" if total else ""
            text = f"{step or title} {done // unit}{of}{' MB' if megabytes else ''}"
            bar.update(task, completed=done, total=total, description=text)

        yield count


def clock(seconds: float) -> str:
    """Seconds as h:mm:ss or m:ss.

    >>> clock(3725.0)
    '1:02:05'
    """
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
