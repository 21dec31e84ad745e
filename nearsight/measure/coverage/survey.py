"""Try all models, each in its own process, and collect the results in one file.

The processes are forked from a server that has imported the libraries and done nothing else, so the
libraries are imported only once. A model that crashes its process, or takes too long, still gets a
row.
"""

from __future__ import annotations

import json
import multiprocessing
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from pathlib import Path

from nearsight.core import append_bytes
from nearsight.measure.coverage.attempt import ModelRow, try_model
from nearsight.measure.coverage.choices import covered_models

ROWS_FILE = "coverage.jsonl"
TIMEOUT = 300.0  # seconds for one model
WARM = "nearsight.measure.coverage.warm"  # imports what the attempts need
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
) -> list[ModelRow]:
    """Try models that have no row in the folder yet, and return all rows.

    Args:
        folder: Where ``coverage.jsonl`` is, or will be.
        names: Models to try; all by default.
        progress: Called with the number of models that are finished and the number of all models.
        again: Try models with these outcomes (such as "crashed") or names again.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / ROWS_FILE
    wanted = list(names) if names is not None else covered_models()
    done = {row.model: row for row in read_rows(path)
            if row.outcome not in again and row.model not in again}  # fmt: skip
    for number, name in enumerate(wanted, 1):
        if name not in done:
            done[name] = _in_process(name)
            append_bytes(path, (json.dumps(done[name].contents()) + "\n").encode())
        if progress:
            progress(number, len(wanted))
    return [done[name] for name in wanted]


def read_rows(path: Path) -> list[ModelRow]:
    """Return the rows in a file; if a model was tried again, only its last row."""
    lines = path.read_text().splitlines() if path.exists() else []
    rows = {row["model"]: ModelRow(**row) for row in map(json.loads, lines)}
    return list(rows.values())


def _in_process(name: str, attempt: Callable[[str], ModelRow] = try_model) -> ModelRow:
    """Try a model in its own process, and describe a crash or a timeout in its row."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([WARM])
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_send, args=(sender, attempt, name), daemon=True)
    process.start()
    sender.close()
    try:
        if not receiver.poll(TIMEOUT):
            return ModelRow(name, "crashed", reason=f"it took more than {TIMEOUT:.0f} seconds")
        return receiver.recv()
    except EOFError:
        process.join()
        return ModelRow(name, "crashed", reason=f"its process ended with {process.exitcode}")
    finally:
        process.kill()
        process.join()
        receiver.close()


def _send(sender: Connection, attempt: Callable[[str], ModelRow], name: str) -> None:
    """Try a model and send the result through a pipe."""
    sender.send(attempt(name))
    sender.close()
