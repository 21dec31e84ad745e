"""Try many inputs in forked processes, so that a hang or a crash costs one input and not the run.

A worker tells its parent which input it begins and what became of it, a line of JSON each. If one
takes too much processor time or the worker dies, the parent counts it and goes on with the next.
"""

from __future__ import annotations

import json
import os
import resource
import select
import signal
import sys
import time
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

from attack.attack import Attack, attacked
from attack.verdicts import HANG, SECONDS, TRACEBACK
from hypothesis import HealthCheck, Phase, given, seed, settings

CHUNK = 200  # inputs per process
WALL_SECONDS = 1800.0  # for one input, on a busy machine
ADDRESS_SPACE = 6 << 30  # bytes: settings that ask for more run out of memory, not of the machine
Outcome = dict[str, Any]


def outcomes(
    attack: Attack, number: int, first_seed: int, room: Path, known: set[str]
) -> Iterator[Outcome]:
    """Yield what became of ``number`` inputs that are not ``known``, or of as many as there are.

    Args:
        attack: The kind of input.
        number: How many.
        first_seed: Of the random numbers that make them; the next ones are used too.
        room: An existing folder to work in.
        known: The hashes of inputs that count no more; those that are yielded are added.
    """
    new = 0
    for turn in range(first_seed, first_seed + 10 + 4 * number // CHUNK):
        for outcome in _chunk(attack, min(CHUNK, number - new), turn, room):
            if outcome["case"] not in known:
                known.add(outcome["case"])
                new += 1
                yield outcome
            if new >= number:
                return


def _chunk(attack: Attack, number: int, turn: int, room: Path) -> Iterator[Outcome]:
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        code = 1
        try:
            _work(attack, number, turn, room, writing)
            code = 0
        finally:
            os._exit(code)
    os.close(writing)
    begun: Outcome | None = None
    try:
        with os.fdopen(reading, "rb", buffering=0) as pipe:
            for line in _lines(pipe, child):
                told = json.loads(line)
                if "what" in told:
                    yield told
                    begun = None
                else:
                    begun = told
    finally:
        _, status = os.waitpid(child, 0)
    if begun is not None:
        hung = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
        yield begun | {"what": HANG if hung else TRACEBACK, "text": f"ended with status {status}"}


def _lines(pipe: Any, child: int) -> Iterator[bytes]:
    """Yield lines; kill the child if it says nothing for too long."""
    rest, cpu, wall = b"", _cpu_seconds(child), time.monotonic()
    while True:
        if select.select([pipe], [], [], 0.5)[0]:
            got = pipe.read(1 << 16)
            if not got:
                return
            *whole, rest = (rest + got).split(b"\n")
            yield from whole
            cpu, wall = _cpu_seconds(child), time.monotonic()
        elif _cpu_seconds(child) - cpu > 2 * SECONDS or time.monotonic() - wall > WALL_SECONDS:
            os.kill(child, signal.SIGKILL)


def _cpu_seconds(process: int) -> float:
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _work(attack: Attack, number: int, turn: int, room: Path, writing: int) -> None:
    """Try inputs in this process and write what became of them."""
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    sys.stdin.close()
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)
    os.dup2(quiet, 2)

    def tell(content: Outcome) -> None:
        os.write(writing, json.dumps(content).encode() + b"\n")

    @seed(turn)
    @settings(
        max_examples=number,
        database=None,
        deadline=None,
        phases=(Phase.generate,),
        suppress_health_check=list(HealthCheck),
    )
    @given(attack.cases)
    def each(case: Any) -> None:
        shown = repr(case)
        name = {
            "attack": attack.name,
            "case": sha256(shown.encode(errors="surrogatepass")).hexdigest()[:16],
            "shown": shown[:1500].encode(errors="backslashreplace").decode(),
        }
        tell(name)
        found = attacked(attack, case, room)
        tell(
            name
            | {"what": found.verdict.what, "text": found.verdict.text[-3000:]}
            | {"outside": list(found.outside), "started": list(found.started)}
        )

    each()
