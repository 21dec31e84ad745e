"""Run the attempts of all models, each in a process of its own, into one file of rows."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from nearsight.core import append_bytes
from nearsight.measure.coverage.attempt import Row, try_model
from nearsight.measure.coverage.choices import covered_models

ROWS_FILE = "coverage.jsonl"
TIMEOUT = 900  # seconds for one model
SAMPLE = (
    "timm/vit_tiny_patch16_224", "timm/levit_128s", "timm/nest_tiny", "timm/gcvit_xxtiny",
    "timm/mobilevit_xxs", "timm/xcit_nano_12_p16_224", "timm/coat_tiny", "timm/resnet10t",
    "torchvision/swin_t", "hf/cvt",
)  # fmt: skip


def run_coverage(
    folder: Path,
    names: Sequence[str] | None = None,
    progress: Callable[[int, int], None] | None = None,
    again: Sequence[str] = (),
) -> list[Row]:
    """Try models that have no row in the folder yet, and return all rows.

    Args:
        folder: Where ``coverage.jsonl`` is, or will be.
        names: Models to try; all by default.
        progress: Called with the models done and the models in all.
        again: Outcomes of rows that are tried again, such as "crashed".
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / ROWS_FILE
    wanted = list(names) if names is not None else covered_models()
    done = {row.model: row for row in read_rows(path) if row.outcome not in again}
    for number, name in enumerate(wanted, 1):
        if name not in done:
            done[name] = _in_process(name)
            append_bytes(path, (json.dumps(done[name].contents()) + "\n").encode())
        if progress:
            progress(number, len(wanted))
    return [done[name] for name in wanted]


def read_rows(path: Path) -> list[Row]:
    """The last row of every model in a file."""
    lines = path.read_text().splitlines() if path.exists() else []
    rows = {row["model"]: Row(**row) for row in map(json.loads, lines)}
    return list(rows.values())


def _in_process(name: str) -> Row:
    command = [sys.executable, "-m", "nearsight.measure.coverage.survey", name]
    try:
        ran = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT, check=False)
    except subprocess.TimeoutExpired:
        return Row(name, "crashed", reason=f"it took more than {TIMEOUT} seconds")
    lines = [line for line in ran.stdout.splitlines() if line.startswith('{"model"')]
    if ran.returncode or not lines:
        last = (ran.stderr.strip().splitlines() or ["no output"])[-1]
        return Row(name, "crashed", reason=f"the process ended with {ran.returncode}: {last}"[:300])
    return Row(**json.loads(lines[-1]))


if __name__ == "__main__":
    print(json.dumps(try_model(sys.argv[1]).contents()))
