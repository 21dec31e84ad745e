"""``make attack``: many bad inputs and kills, a table of what happened, exit code 1 if any hurt.

ATTACK_N is the number of inputs, KILLS that of kills. ATTACK_OUT is the folder for the table, the
findings and the counts so far: the same command continues there after a kill.
"""

from __future__ import annotations

import json
import os
import random
import sys
import tempfile
import time
import warnings
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from attack.faults import has_strace
from attack.verdicts import ACCEPTED, HANG, REFUSED, SILENT, TRACEBACK

SAVE_SECONDS = 20.0
HARMS = ("tracebacks", "hangs", "silent", "differing", "outside", "code")
NAMES = {TRACEBACK: "tracebacks", HANG: "hangs", SILENT: "silent"}
PLAN = "stops"  # in State.done
FULL_SHARE = INTERRUPT_SHARE = 10  # one full disk and one Ctrl-C for so many kills


@dataclass
class State:
    """The counts so far; written to a file now and then."""

    path: Path
    counts: dict[str, Counter[str]] = field(default_factory=dict)
    done: dict[str, int] = field(default_factory=dict)  # attempts of a plan, or the next seed
    saved: float = 0.0

    @classmethod
    def read(cls, path: Path) -> State:
        """Return the counts of an attack that was interrupted, or none."""
        if not path.is_file():
            return cls(path)
        found = json.loads(path.read_text())
        return cls(path, {x: Counter(y) for x, y in found["counts"].items()}, found["done"])

    def of(self, name: str) -> Counter[str]:
        """Return the counts of an attack."""
        return self.counts.setdefault(name, Counter())

    def save(self, now: bool = False) -> None:
        """Write the counts, if they were not written just before."""
        if now or time.monotonic() - self.saved > SAVE_SECONDS:
            temporary = self.path.with_suffix(".tmp")
            temporary.write_text(json.dumps({"counts": self.counts, "done": self.done}))
            temporary.replace(self.path)
            self.saved = time.monotonic()


def attack_inputs(state: State, number: int, room: Path, log: Path) -> None:
    """Try about ``number`` different inputs, each kind as often as its share says."""
    from attack.all_attacks import ATTACKS
    from attack.workers import CHUNK, outcomes

    shares = sum(attack.share for attack in ATTACKS)
    for attack in ATTACKS:
        wanted = max(1, round(number * attack.share / shares))
        counts = state.of(attack.name)
        while (missing := wanted - counts["inputs"]) > 0:
            turn = state.done.get(attack.name, 0)
            before = counts["inputs"]
            for outcome in outcomes(attack, min(CHUNK, missing), 10**6 * turn, room):
                counts["inputs"] += 1
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
        state.save(now=True)
        print(_row(attack.name, counts), flush=True)


def attack_commands(state: State, number: int, room: Path, log: Path) -> None:
    """Kill every command at every write, then at pairs of writes; interrupt it, fill its disk."""
    from attack.commands import COMMANDS
    from attack.stops import Stopping, can_mount

    traced, mountable = has_strace(), can_mount(room)
    print(f"kills by {'strace' if traced else 'audit hook'}; ", end="")
    print("full disks are small tmpfs" if mountable else "no full disks: mounting is not allowed")
    learned = []
    for command in COMMANDS:
        learned.append(Stopping(command, room, traced).learn())
        print(f"{command.name}: {len(learned[-1].points)} writes", flush=True)
    by_name = {stopping.command.name: stopping for stopping in learned}
    for name, kind, at in _plan(learned, number)[state.done.get(PLAN, 0) :]:
        state.done[PLAN] = state.done.get(PLAN, 0) + 1
        if kind == "full" and not mountable:
            continue
        stopping, counts = by_name[name], state.of(name)
        wrong = stopping.without_room(at) if kind == "full" else stopping.stopped(kind, *at)
        counts["kills"] += len(at) if kind == "kill" else 0
        counts[kind] += kind != "kill"
        counts["differing"] += any("bytes" in x or "neither" in x for x in wrong)
        counts["tracebacks"] += any("traceback" in x for x in wrong)
        counts["silent"] += any("success" in x for x in wrong)
        counts["other"] += bool(wrong)
        if wrong:
            _note(log, {"attack": name, "what": kind, "at": str(at), "text": "; ".join(wrong)})
        state.save()
    state.save(now=True)


def _plan(learned: list[Any], number: int) -> list[tuple[str, Any, Any]]:
    """Return what to do: every point once while there is room, then random pairs of points."""
    draw = random.Random(7)
    single = [(x.command.name, "kill", (point,)) for x in learned for point in x.points]
    if len(single) > number:
        single = sorted(draw.sample(single, number), key=lambda x: x[0])
    plan: list[tuple[str, Any, Any]] = list(single)
    kills = len(single)
    while kills < number:
        chosen = draw.choice(learned)
        plan.append((chosen.command.name, "kill", tuple(draw.choices(chosen.points, k=2))))
        kills += 2
    for x in learned:
        share = max(1, number // INTERRUPT_SHARE // len(learned))
        plan += [(x.command.name, "interrupt", (draw.choice(x.points),)) for _ in range(share)]
        share = max(1, number // FULL_SHARE // len(learned))
        plan += [(x.command.name, "full", draw.randrange(x.num_bytes)) for _ in range(share)]
    draw.shuffle(plan)  # so that the counts of an attack that is stopped are of all commands
    return plan


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


def table(state: State) -> str:
    """Return the counts as a table of Markdown."""
    total: Counter[str] = Counter()
    for counts in state.counts.values():
        total += counts
    head = [
        "attack",
        "inputs",
        "refused",
        "accepted",
        "kills",
        "Ctrl-C",
        "full disk",
        "tracebacks",
        "hangs",
    ]
    head += ["silent", "differing bytes", "outside", "code run", "other"]
    lines = ["| " + " | ".join(head) + " |", "| --- |" + " ---: |" * (len(head) - 1)]
    lines += [_row(name, counts) for name, counts in state.counts.items()]
    return "\n".join([*lines, _row("**all**", total)]) + "\n"


def main() -> int:
    """Attack, print the table, and return 1 if anything must be mended."""
    warnings.simplefilter("ignore")
    inputs, kills = int(os.environ.get("ATTACK_N", "2000")), int(os.environ.get("KILLS", "100"))
    out = Path(os.environ.get("ATTACK_OUT", "attack-results")).resolve()
    out.mkdir(parents=True, exist_ok=True)
    state = State.read(out / "state.json")
    import torch
    from attack.all_attacks import warm

    torch.set_num_threads(1)
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="attack-room-") as name:
        warm()
        if inputs:
            attack_inputs(state, inputs, Path(name), out / "found.jsonl")
        if kills:
            attack_commands(state, kills, Path(name), out / "found.jsonl")
    (out / "table.md").write_text(table(state))
    print(table(state), end="")
    print(f"{time.monotonic() - began:.0f} s; findings, if any, are in {out / 'found.jsonl'}")
    harm = sum(counts[x] for counts in state.counts.values() for x in (*HARMS, "other"))
    return 1 if harm else 0


if __name__ == "__main__":
    sys.exit(main())
