"""Write the files of a run while it trains: logs, best weights and checkpoints.

Only process 0 writes. A checkpoint also contains the logs. Restoring it rewrites them, which
removes a half-written line, or the line of an epoch that was lost.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.torch

from nearsight.core import World, write_bytes
from nearsight.runs import CHECKPOINT, SCHEMA_VERSION, WEIGHTS, write_answers
from nearsight.runs.records import LOG_FILE, RUN_FILE, TIMING_FILE
from nearsight.train.checkpoint import load_checkpoint, save_checkpoint
from nearsight.train.state import TrainingState
from nearsight.train.trackers import Tracker, tracked_values


@dataclass
class Journal:
    """Write the files of a run while it trains."""

    out: Path
    world: World
    trackers: list[Tracker] = field(default_factory=list)

    def write_record(self, record: dict[str, Any]) -> None:
        """Write run.json."""
        if self.world.is_main:
            RUN_FILE.write(self.out, record)

    def add_start(self, line: dict[str, Any]) -> None:
        """Write what was measured before the first step as the first line of the log."""
        if self.world.is_main:
            LOG_FILE.append(self.out, line)

    def add_epoch(self, line: dict[str, Any], seconds: float, num_images: int) -> dict[str, Any]:
        """Append an epoch to both logs and return its line of timing.jsonl."""
        speed = num_images / seconds
        timing = {
            "schema_version": SCHEMA_VERSION,
            "epoch": line["epoch"],
            "seconds": seconds,
            "images_per_second": speed,
        }
        if self.world.is_main:
            LOG_FILE.append(self.out, line)
            TIMING_FILE.append(self.out, timing)
        for tracker in self.trackers:
            tracker.log(line["epoch"], tracked_values(line))
        return timing

    def write_weights(self, state: TrainingState) -> None:
        """Write the best weights so far to weights.safetensors."""
        if self.world.is_main:
            write_bytes(self.out / WEIGHTS, weights_bytes(state))

    def write_answers(self, correct: np.ndarray) -> None:
        """Write which test images were classified correctly."""
        if self.world.is_main:
            write_answers(self.out, correct)

    def save(self, state: TrainingState, conditions: dict[str, Any]) -> None:
        """Write a checkpoint; every process must call this."""
        tensors = state.tensors()
        if self.world.is_main:
            facts = {**state.facts(), "conditions": conditions}
            save_checkpoint(self.out / CHECKPOINT, state.counters.total_steps, tensors, facts)

    def go_back(self, state: TrainingState, say: Callable[[str], None]) -> dict[str, Any] | None:
        """Restore the newest undamaged checkpoint and the logs.

        Returns:
            The conditions under which the checkpoint was written; None if there is none.
        """
        found = load_checkpoint(self.out / CHECKPOINT, say)
        if found is not None:
            state.restore(*found)
        if self.world.is_main:
            LOG_FILE.write_lines(self.out, state.counters.log)
            TIMING_FILE.write_lines(self.out, state.counters.timing)
        if state.best:
            self.write_weights(state)
        self.world.wait()
        return found[1]["conditions"] if found is not None else None

    def close(self) -> None:
        """Close the trackers."""
        for tracker in self.trackers:
            tracker.close()


def weights_bytes(state: TrainingState) -> bytes:
    """Return the content of weights.safetensors: the best weights so far."""
    return safetensors.torch.save(state.best)
