"""Print to the terminal: a console of at most 80 columns, safe text, and a progress bar."""

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
    r"""Replace control characters in text that comes from outside.

    A file or model name with such characters could move the cursor or change the colours of the
    terminal.

    >>> printable("mad\x1b[2J_vit")
    'mad�[2J_vit'
    """
    return UNPRINTABLE.sub("\ufffd", text)


class Screen(Console):
    """Rich's console with a method for text that must not be interpreted as markup."""

    def say(self, text: str, style: str | None = None) -> None:
        """Print text without interpreting markup, and with control characters replaced."""
        self.print(printable(text), style=style, markup=False)


def console() -> Screen:
    """Return a console on standard output that is at most 80 columns wide."""
    return Screen(highlight=False, width=min(Console().width, MAX_WIDTH))


@contextmanager
def show_progress(title: str, megabytes: bool = False) -> Iterator[Callable[..., None]]:
    """Show a progress bar on standard error while the block runs.

    The bar disappears when the block ends. If standard error is not a terminal, nothing is shown.

    Args:
        title: The text in front of the bar.
        megabytes: Whether the counts are bytes, to be shown as megabytes.

    Yields:
        A function to call with the number of items done and the total (None if unknown). An
        optional third argument replaces the title, for a step of another kind.
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


counting = show_progress  # the old name, kept for one version


def clock(seconds: float) -> str:
    """Format seconds as h:mm:ss, or as m:ss below one hour.

    >>> clock(3725.0)
    '1:02:05'
    """
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
