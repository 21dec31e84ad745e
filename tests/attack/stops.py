"""Stop a command at a point, look at what it left, and let the same command finish."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from attack.commands import Files, Stoppable, warm
from attack.faults import Ending, Kind, Point, run

DISK = 64 << 20  # bytes of the small disk
FILLER = "filler"


@dataclass(frozen=True)
class Seen:
    """What was wrong after a command was stopped, and how often the stops took place."""

    wrong: list[str]
    hits: int


@dataclass
class Stopping:
    """A command whose unstopped run is known, to be stopped as often as one likes.

    ``learn`` first.
    """

    command: Stoppable
    room: Path
    traced: bool
    before: Files = field(default_factory=dict)
    after: Files = field(default_factory=dict)
    points: tuple[Point, ...] = ()
    num_bytes: int = 0  # that the command writes, at most

    def learn(self) -> Stopping:
        """Run the command once as a whole, and note its result and its points."""
        warm()
        with self.folder() as place:
            self.command.begin(place)
            self.before, size = self.command.result(place), _size(place)
            ending = run(self.command.call(place), place, traced=self.traced)
            if ending.code:
                raise AssertionError(f"{self.command.name} fails unstopped: {ending.said}")
            self.after, self.points = self.command.result(place), ending.points
            self.num_bytes = max(1 << 14, 2 * (_size(place) - size))
        assert self.after, f"{self.command.name} left nothing"
        return self

    @contextmanager
    def folder(self) -> Iterator[Path]:
        """Yield a folder of the same length of path for every attempt."""
        holder = Path(tempfile.mkdtemp(dir=self.room))
        place = holder / "place"
        place.mkdir()
        try:
            yield place
        finally:
            shutil.rmtree(holder, ignore_errors=True)

    def stopped(self, kind: Kind, *at: Point) -> Seen:
        """Stop the command at these points one after another, then let it finish."""
        with self.folder() as place:
            self.command.begin(place)
            wrong: list[str] = []
            hits = 0
            for point in at:
                ending = run(self.command.call(place), place, kind, point, self.traced)
                hits += ending.hit
                wrong += self._seen(place, kind, ending)
            wrong += self._finished(place)
        return Seen([f"{self.command.name}, {kind} at {_told(at)}: {x}" for x in wrong], hits)

    def without_room(self, num_bytes: int) -> Seen:
        """Run the command on a disk with this much room left, and again with enough."""
        with self.folder() as place, small_disk(place):
            self.command.begin(place)
            left = DISK - _size(place) - num_bytes
            with (place / FILLER).open("wb") as filler:
                filler.write(bytes(max(0, left)))
            wrong = self._seen(place, "full", run(self.command.call(place), place))
            (place / FILLER).unlink()
            wrong += self._finished(place)
        return Seen([f"{self.command.name}, {num_bytes} bytes of room: {x}" for x in wrong], 1)

    def _finished(self, place: Path) -> list[str]:
        """Let the same command finish, and compare its result with that of an unstopped run."""
        wrong = []
        ending = run(self.command.call(place), place)
        if ending.code:
            wrong.append(f"the same command then ends with {ending.code}: {ending.said[-1000:]}")
        found = self.command.result(place)
        both = found.keys() | self.after.keys()
        if names := sorted(x for x in both if found.get(x) != self.after.get(x)):
            wrong.append(f"other bytes in {', '.join(names)}")
        left = [x for x in place.rglob("*") if x.name.endswith((".tmp", ".partial", ".pending"))]
        if left:
            wrong.append(f"left for good: {', '.join(str(x.relative_to(place)) for x in left)}")
        return wrong

    def _seen(self, place: Path, kind: Kind, ending: Ending) -> list[str]:
        """Judge what a stopped command said and left."""
        wrong = []
        if kind != "kill" and "Traceback" in ending.said:
            wrong.append(f"a traceback: {ending.said[-1500:]}")
        if kind == "full" and ending.code not in (0, 1):
            wrong.append(f"exit code {ending.code}: {ending.said[-300:]}")
        if kind == "full" and ending.code == 0 and self.command.result(place) != self.after:
            wrong.append("it reported success, but its files are not those of a whole run")
        if kind == "full" and ending.code == 1 and "nearsight: " not in ending.said:
            wrong.append(f"no sentence: {ending.said[-300:]}")
        try:
            problem = self.command.whole(place, self.before, self.after)
        except Exception as error:
            problem = f"{type(error).__name__}: {error}"
        return [*wrong, problem] if problem else wrong


@contextmanager
def small_disk(place: Path) -> Iterator[None]:
    """Let a folder be a disk of its own with ``DISK`` bytes; only root may do so."""
    words = ["mount", "-t", "tmpfs", "-o", f"size={DISK}", "tmpfs", str(place)]
    subprocess.run(words, check=True, capture_output=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True, capture_output=True)


def can_mount(room: Path) -> bool:
    """Return whether this user may mount a small disk."""
    place = room / "disk"
    place.mkdir(exist_ok=True)
    try:
        with small_disk(place):
            return os.stat(place).st_dev != os.stat(room).st_dev
    except (OSError, subprocess.CalledProcessError):
        return False


def _size(folder: Path) -> int:
    """Return the bytes that the files of a folder take on a disk of 4 KiB blocks."""
    return sum(-(-x.stat().st_size // 4096) * 4096 for x in folder.rglob("*") if x.is_file())


def _told(at: tuple[Point, ...]) -> str:
    return " and ".join(f"{point.call} {point.number}" for point in at)
