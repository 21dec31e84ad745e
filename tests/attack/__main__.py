"""``make attack``: many bad inputs and kills, a table of what happened, exit code 1 if any hurt.

ATTACK_N is the number of inputs, KILLS that of kills, ATTACK_WORKERS that of processes, ATTACK_SEED
chooses other inputs and kills. ATTACK_OUT is the folder for the table, the findings and the counts
so far: the same command continues there after a kill.
"""

from __future__ import annotations

import gc
import json
import os
import random
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attack.faults import has_strace
from attack.verdicts import ACCEPTED, HANG, REFUSED, SILENT, TRACEBACK

if TYPE_CHECKING:
    from attack.attack import Attack
    from attack.stops import Stopping

ROUNDS = 4
SAVE_SECONDS = 20.0
HARMS = ("tracebacks", "hangs", "silent", "differing", "outside", "code")
NAMES = {TRACEBACK: "tracebacks", HANG: "hangs", SILENT: "silent"}
PLAN = "stops"  # in State.done
FULL_SHARE = INTERRUPT_SHARE = 10  # one full disk and one Ctrl-C for so many kills


@dataclass
class State:
    """The counts of one worker so far; written to a file now and then."""

    path: Path
    counts: dict[str, Counter[str]] = field(default_factory=dict)
    known: dict[str, list[str]] = field(default_factory=dict)  # the hashes of inputs, by attack
    done: dict[str, int] = field(default_factory=dict)  # entries of the plan, or the next seed
    saved: float = 0.0

    @classmethod
    def read(cls, path: Path) -> State:
        """Return the counts of an attack that was interrupted, or none."""
        if not path.is_file():
            return cls(path)
        found = json.loads(path.read_text())
        counts = {name: Counter(each) for name, each in found["counts"].items()}
        return cls(path, counts, found["known"], found["done"])

    def of(self, name: str) -> Counter[str]:
        """Return the counts of an attack."""
        return self.counts.setdefault(name, Counter())

    def save(self, now: bool = False) -> None:
        """Write the counts, if they were not written just before."""
        if now or time.monotonic() - self.saved > SAVE_SECONDS:
            temporary = self.path.with_suffix(".tmp")
            found = {"counts": self.counts, "known": self.known, "done": self.done}
            temporary.write_text(json.dumps(found))
            temporary.replace(self.path)
            self.saved = time.monotonic()


@dataclass(frozen=True)
class Part:
    """What one of several workers does: each ``number``-th input and kill of a seed."""

    index: int
    number: int
    seed: int = 0

    def share(self, whole: int) -> int:
        """Return how many of so many this worker does."""
        return whole * (self.index + 1) // self.number - whole * self.index // self.number


def attack_inputs(state: State, number: int, part: Part, room: Path, log: Path) -> None:
    """Try about ``number`` different inputs, each kind as often as its share says.

    They are tried in rounds of all kinds, so that the counts of an attack that is stopped are of
    all kinds too.
    """
    from attack.all_attacks import ATTACKS

    shares = sum(attack.share for attack in ATTACKS)
    for turn in range(1, ROUNDS + 1):
        for attack in ATTACKS:
            wanted = part.share(max(part.number, round(number * attack.share / shares)))
            _try_inputs(state, attack, wanted * turn // ROUNDS, part, room, log)
        state.save(now=True)
        tried = sum(counts["inputs"] for counts in state.counts.values())
        print(f"worker {part.index}: {tried} inputs", flush=True)


def _try_inputs(
    state: State, attack: Attack, wanted: int, part: Part, room: Path, log: Path
) -> None:
    """Try inputs of one kind until there are as many as wanted, or no others."""
    from attack.workers import CHUNK, outcomes

    counts, known = state.of(attack.name), state.known.setdefault(attack.name, [])
    while (missing := wanted - counts["inputs"]) > 0:
        turn = state.done.get(attack.name, 0)
        before = counts["inputs"]
        first_seed = 10**12 * part.seed + 10**6 * (turn * part.number + part.index)
        for outcome in outcomes(attack, min(CHUNK, missing), first_seed, room, set(known)):
            counts["inputs"] += 1
            known.append(outcome["case"])
            counts[NAMES.get(outcome["what"], outcome["what"])] += 1
            counts["outside"] += bool(outcome.get("outside"))
            counts["code"] += bool(outcome.get("started"))
            if (
                outcome["what"] not in (ACCEPTED, REFUSED)
                or outcome.get("outside")
                or outcome.get("started")
            ):
                _note(log, outcome)
            state.save()
        state.done[attack.name] = turn + 1
        if counts["inputs"] == before:  # there are no others of this kind
            break


def learn_commands(room: Path) -> list[Stopping]:
    """Run every command once as a whole, and return what is known of it then."""
    from attack.commands import COMMANDS
    from attack.stops import Stopping

    traced = has_strace()
    print(f"kills by {'strace' if traced else 'audit hook'}")
    learned = []
    for command in COMMANDS:
        learned.append(Stopping(command, room, traced).learn())
        print(f"{command.name}: {len(learned[-1].points)} writes", flush=True)
    return learned


def attack_commands(
    state: State, learned: list[Stopping], number: int, part: Part, room: Path, log: Path
) -> None:
    """Kill every command at every write, then at pairs of writes; interrupt it, fill its disk."""
    from attack.stops import can_mount

    mountable = can_mount(room)
    learned = [replace(stopping, room=room) for stopping in learned]
    by_name = {stopping.command.name: stopping for stopping in learned}
    plan = islice(_plan(learned, number, part.seed), part.index, None, part.number)
    done = state.done.setdefault(PLAN, 0)
    planned = part.share(len(_first(learned, number)))
    for name, kind, at in islice(plan, done, None):
        kills = sum(counts["kills"] for counts in state.counts.values())
        if state.done[PLAN] >= planned and kills >= part.share(number):
            break
        state.done[PLAN] += 1
        if kind == "full" and not mountable:
            continue
        stopping, counts = by_name[name], state.of(name)
        seen = stopping.without_room(at) if kind == "full" else stopping.stopped(kind, *at)
        counts[f"{kind}s" if kind == "kill" else kind] += seen.hits
        counts["differing"] += any("bytes" in x or "neither" in x for x in seen.wrong)
        counts["tracebacks"] += any("traceback" in x for x in seen.wrong)
        counts["silent"] += any("success" in x for x in seen.wrong)
        counts["other"] += bool(seen.wrong)
        if seen.wrong:
            text = "; ".join(seen.wrong)
            _note(log, {"attack": name, "what": kind, "at": str(at), "text": text})
        state.save()
    state.save(now=True)


def _first(learned: list[Stopping], number: int) -> list[tuple[str, Any, Any]]:
    """Return what is tried in any case: every point once, Ctrl-C and full disks."""
    draw = random.Random(7)
    plan: list[tuple[str, Any, Any]] = [
        (x.command.name, "kill", (point,)) for x in learned for point in x.points
    ]
    if len(plan) > number:
        plan = sorted(draw.sample(plan, number), key=lambda x: x[0])
    for x in learned:
        share = max(1, number // INTERRUPT_SHARE // len(learned))
        plan += [(x.command.name, "interrupt", (draw.choice(x.points),)) for _ in range(share)]
        share = max(1, number // FULL_SHARE // len(learned))
        plan += [(x.command.name, "full", draw.randrange(x.num_bytes)) for _ in range(share)]
    draw.shuffle(plan)  # so that the counts of an attack that is stopped are of all commands
    return plan


def _plan(learned: list[Stopping], number: int, seed: int) -> Iterator[tuple[str, Any, Any]]:
    """Yield what to do: first every point once, then random pairs of points for ever."""
    yield from _first(learned, number)
    draw = random.Random(seed)
    while True:
        chosen = draw.choice(learned)
        yield chosen.command.name, "kill", tuple(draw.choices(chosen.points, k=2))


def _note(log: Path, finding: dict[str, Any]) -> None:
    with log.open("a") as file:
        file.write(json.dumps(finding) + "\n")
    print(
        f"FOUND {finding['attack']}: {finding['what']}: {finding.get('text', '')[-400:]}",
        flush=True,
    )


COLUMNS = ("inputs", "refused", "accepted", "kills", "interrupt", "full", *HARMS, "other")


def _row(name: str, counts: Counter[str]) -> str:
    return f"| {name} | " + " | ".join(str(counts[x]) if counts[x] else "0" for x in COLUMNS) + " |"


HEAD = (
    "attack", "inputs", "refused", "accepted", "kills", "Ctrl-C", "full disk", "tracebacks",
    "hangs", "silent", "differing bytes", "outside", "code run", "other",
)  # fmt: skip


def table(states: list[State]) -> str:
    """Return the counts of all workers as a table of Markdown."""
    counts: dict[str, Counter[str]] = {}
    for state in states:
        for name, each in state.counts.items():
            counts.setdefault(name, Counter()).update(each)
    total: Counter[str] = Counter()
    for each in counts.values():
        total.update(each)
    lines = ["| " + " | ".join(HEAD) + " |", "| --- |" + " ---: |" * (len(HEAD) - 1)]
    lines += [_row(name, each) for name, each in counts.items()]
    different = {(name, x) for state in states for name, each in state.known.items() for x in each}
    said = f"{len(different)} of the inputs differ from all others.\n"
    return "\n".join([*lines, _row("**all**", total)]) + "\n\n" + said


def attack(inputs: int, kills: int, learned: list[Stopping], part: Part, out: Path) -> None:
    """Do one worker's part, in a process that has loaded and made what attempts need."""
    state = State.read(out / f"state-{part.index}-of-{part.number}.json")
    log = out / f"found-{part.index}-of-{part.number}.jsonl"
    with tempfile.TemporaryDirectory(prefix="attack-room-") as name:
        if kills:
            attack_commands(state, learned, kills, part, Path(name), log)
        if inputs:
            attack_inputs(state, inputs, part, Path(name), log)


def main() -> int:
    """Attack, print the table, and return 1 if anything must be mended."""
    warnings.simplefilter("ignore")
    inputs, kills = int(os.environ.get("ATTACK_N", "2000")), int(os.environ.get("KILLS", "100"))
    number = int(os.environ.get("ATTACK_WORKERS", "1"))
    out = Path(os.environ.get("ATTACK_OUT", "attack-results")).resolve()
    out.mkdir(parents=True, exist_ok=True)
    import torch
    from attack.all_attacks import warm

    torch.set_num_threads(1)
    began = time.monotonic()
    warm()
    with tempfile.TemporaryDirectory(prefix="attack-room-") as name:
        learned = learn_commands(Path(name)) if kills else []
    seed = int(os.environ.get("ATTACK_SEED", "0"))
    parts = [Part(index, number, seed) for index in range(number)]
    gc.freeze()  # so that forks do not copy what they never change
    broken = _in_forks([partial(attack, inputs, kills, learned, part, out) for part in parts])
    states = [State.read(path) for path in sorted(out.glob("state-*.json"))]
    (out / "table.md").write_text(table(states))
    print(table(states), end="")
    print(f"{time.monotonic() - began:.0f} s; findings, if any, are in {out}/found-*.jsonl")
    counts = [each for state in states for each in state.counts.values()]
    harm = sum(each[x] for each in counts for x in (*HARMS, "other"))
    return 1 if harm or broken else 0


def _in_forks(calls: list[Callable[[], None]]) -> int:
    """Make every call in a process of its own, and return how many of them failed."""
    children = []
    for call in calls:
        child = os.fork()
        if child == 0:
            code = 1
            try:
                call()
                code = 0
            except BaseException:
                traceback.print_exc()
            finally:
                sys.stdout.flush()
                os._exit(code)
        children.append(child)
    return sum(os.waitpid(child, 0)[1] != 0 for child in children)


if __name__ == "__main__":
    sys.exit(main())
