"""Train a run epoch by epoch (step.py takes a single step).

The best epoch is the one with the best score on the validation images. Training may stop early, and
the test set is used once, at the end. A run that was interrupted continues when it is started
again.
"""

from __future__ import annotations

import hashlib
import time
from contextlib import AbstractContextManager, ExitStack, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nearsight.core import Interrupted, StopRequest, World, join_processes, stop_signals
from nearsight.protocol import Protocol, spoken_name
from nearsight.runs import (
    ANSWERS,
    LOCK,
    LOG,
    RECORD,
    SCHEMA_VERSION,
    Stage,
    lock_run,
    read_record,
    settle,
)
from nearsight.runs.records import FINISHED, TrainedRun
from nearsight.train.checkpoint import Way, can_be_exact, conditions, inexact_note
from nearsight.train.journal import Journal, weights_bytes
from nearsight.train.looks import look
from nearsight.train.objectives import Validation
from nearsight.train.parallel import Parallel
from nearsight.train.preparation import Prepared, prepare
from nearsight.train.record import (
    check_same_inputs,
    existing_record,
    headline,
    outcome_text,
    result,
    with_stretch,
)
from nearsight.train.reporter import Reporter
from nearsight.train.state import Counters
from nearsight.train.step import Stepper
from nearsight.train.trackers import open_tracker

CHECKPOINT_SECONDS = 300.0  # longest time between two checkpoints, also within an epoch


def train_run(
    protocol: Protocol,
    out: str | Path,
    *,
    seed: int = 0,
    device: str = "auto",
    data_root: Path | None = None,
    compiled: bool = False,
    parallel: Parallel = "ddp",
    trackers: tuple[str, ...] = (),
    reporter: Reporter | None = None,
) -> Path:
    """Train a run in a folder, or continue the run that is there.

    Args:
        protocol: The settings, for example ``preset("baseline", "shapes")``.
        out: The run folder. It gets run.json, train.jsonl, weights.safetensors and checkpoints.
        seed: Random seed for the initial weights, the order of images, augmentation and mixing.
        device: "cpu", "cuda", or "auto" for CUDA if there is a GPU.
        data_root: The folder of data sets. By default $NEARSIGHT_DATA or ~/.cache/nearsight/data.
        compiled: Whether to compile the model with ``torch.compile``.
        parallel: With several processes, whether each has a copy of the model ("ddp") or a part of
            it ("fsdp").
        trackers: Also log to these: "tensorboard", "wandb", "mlflow".
        reporter: Shows progress and notes. By default they are printed.

    Returns:
        The run folder, which ``load_run`` and ``measure_run`` take.

    Raises:
        UserError: If the folder contains another run, if the data or weights have changed since the
            run began, or if the loss is not finite.
        Interrupted: On Ctrl-C or SIGTERM, after a checkpoint was written.

    >>> import tempfile
    >>> from dataclasses import replace
    >>> from nearsight.protocol import preset
    >>> short = replace(preset("baseline", "shapes", "mu"), epochs=1)
    >>> run = train_run(short, tempfile.mkdtemp())  # doctest: +SKIP
    """
    with join_processes(device) as world:
        if reporter is None or not world.is_main:
            reporter = Reporter(quiet=not world.is_main)
        way = Way(compiled=compiled, parallel=parallel)
        _train_in(world, protocol, Path(out), seed, data_root, way, trackers, reporter)
    return Path(out)


def _train_in(
    world: World,
    protocol: Protocol,
    out: Path,
    seed: int,
    data_root: Path | None,
    way: Way,
    trackers: tuple[str, ...],
    reporter: Reporter,
) -> None:
    """Train a run in this process.

    A function of its own, so that everything that it allocated is freed when it returns.
    """
    protocol, note = settle(protocol)
    refusal = Refusal(out) if world.is_main else nullcontext()
    with refusal, ExitStack() as stack:
        if world.is_main:
            out.mkdir(parents=True, exist_ok=True)
            stack.enter_context(lock_run(out))
        old = existing_record(out, protocol, seed)
        if old and old.is_finished:
            reporter.note(f"{out} is finished, so there is nothing to do")
            return
        if note:
            reporter.note(note)
        parts = prepare(protocol, seed, world, data_root, way["compiled"], way["parallel"])
        reporter.note(headline(parts.record, parts.notes))
        now = parts.record["provenance"]
        if old:
            check_same_inputs(out, old, parts.record)
            parts.record["provenance"] = old.provenance.contents()
        journal = Journal(out, world)
        stack.callback(journal.close)
        stack.callback(reporter.close)
        journal.write_record(parts.record)
        if world.is_main:
            journal.trackers = [open_tracker(name, out, parts.record) for name in trackers]
        training = Training(parts, journal, reporter, way)
        training.restore(now)
        if isinstance(refusal, Refusal):
            refusal.is_over = True
        with stop_signals() as request:
            training.to_the_end(request)
        if world.is_main:
            reporter.close()
            reporter.note(outcome_text(read_record(out)))


class Refusal:
    """Remove what a run wrote if an error stops it before its first step.

    Otherwise the corrected command could not use the same folder. Files that were there before are
    kept.
    """

    def __init__(self, out: Path) -> None:
        self.made = [path for path in (out, *out.parents) if not path.exists()]  # innermost first
        self.files = [path for path in (out / RECORD, out / LOCK) if not path.exists()]
        self.is_over = False

    def __enter__(self) -> Refusal:
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        if kind is None or self.is_over:
            return
        with suppress(OSError):  # the folder may be a file, or hold what a tracker wrote
            for path in self.files:
                path.unlink(missing_ok=True)
            for folder in self.made:
                folder.rmdir()


@dataclass
class Training:
    """A run while it trains."""

    parts: Prepared
    journal: Journal
    reporter: Reporter
    way: Way

    def __post_init__(self) -> None:
        self.protocol, self.world = self.parts.setting.protocol, self.parts.setting.world
        self.state, self.objective = self.parts.state, self.parts.objective
        self.stepper = Stepper(self.parts, self.journal.out)
        self.exact = can_be_exact(self.protocol, self.world, self.way)

    @property
    def at(self) -> Counters:
        """Return the counters: the epoch and step that the run has reached."""
        return self.state.counters

    def to_the_end(self, request: StopRequest) -> None:
        """Train until the last epoch or early stopping, then test the best weights."""
        epochs, steps = self.protocol.epochs, self.stepper.steps_per_epoch
        name = f"{spoken_name(self.protocol.name)}, {self.protocol.model.name}"
        self.reporter.start(name, epochs, steps, self.at.total_steps)
        if not self.at.total_steps:
            self.look_at_start()
        while not self.is_finished():
            self.one_epoch(request)
        self.finish()

    def look_at_start(self) -> None:
        """Log the attention before the first step as epoch 0, if the protocol measures it."""
        if seen := look(self.parts, 0):
            line = {"schema_version": SCHEMA_VERSION, "epoch": 0, "step": 0, **seen}
            self.journal.add_start(line)
            self.at.log.append(line)

    def is_finished(self) -> bool:
        """Tell whether the last epoch is done, or training is to stop early."""
        patience = self.protocol.patience
        waited = self.at.epoch - 1 - self.at.best_epoch
        return self.at.epoch > self.protocol.epochs or (patience is not None and waited >= patience)

    def one_epoch(self, request: StopRequest) -> None:
        """Train the rest of the current epoch, validate, log, and write a checkpoint."""
        began = saved = time.monotonic()
        for batch in self.parts.batches(self.at.epoch, self.at.step):
            loss = self.stepper.take(batch)
            self.reporter.step(self.at.epoch, loss, batch.global_size)
            if self.at.step == self.stepper.steps_per_epoch:
                break
            due = self.world.is_main and time.monotonic() - saved > CHECKPOINT_SECONDS
            stop, save = self.world.total([float(request.signum), float(due)])
            if stop or save:
                self.at.epoch_seconds += time.monotonic() - began
                self.save()
                began = saved = time.monotonic()
            if stop:
                raise Interrupted(request.signum, self.journal.out)
        line, scored = self.epoch_line()
        self.at.epoch_seconds += time.monotonic() - began
        num = len(self.parts.setting.train.indices)
        timing = self.journal.add_epoch(line, self.at.epoch_seconds, num)
        if line["best"]:
            self.journal.write_weights(self.state)
        speed = timing["images_per_second"]
        self.reporter.epoch(line, scored.words, timing["seconds"], speed)
        for warning in scored.warnings:
            self.reporter.note(warning)
        self.at.log.append(line)
        self.at.timing.append(timing)
        self.at.begin_epoch()
        self.save()
        (stop,) = self.world.total([float(request.signum)])
        if stop and not self.is_finished():
            raise Interrupted(request.signum, self.journal.out)

    def epoch_line(self) -> tuple[dict[str, Any], Validation]:
        """Score the epoch, keep its weights if they are the best, and return its log line."""
        at = self.at
        with self.use_average():
            scored = self.objective.validate(at)
            self.stepper.check_finite("validation loss", scored.check)
            score = -1.0 if scored.score is None else scored.score
            best = score > at.best_accuracy
            if best:
                at.best_epoch, at.best_accuracy = at.epoch, score
                self.state.keep_as_best()
            seen = look(self.parts, at.epoch)
        line = {
            "schema_version": SCHEMA_VERSION,
            "epoch": at.epoch,
            "step": at.total_steps,
            "lr": self.state.optimizer.param_groups[0]["lr"],
            "train_loss": at.loss_sum / len(self.parts.setting.train.indices),
            "train_accuracy": at.num_correct / at.num_unmixed if at.num_unmixed else None,
            **scored.line,
            "best": best,
            **seen,
        }
        return line, scored

    def use_average(self) -> AbstractContextManager[Any]:
        """Put the moving average into the model inside the block, if the protocol has one."""
        average = self.state.average
        return nullcontext() if average is None else average.swap_in(self.state.model)

    def save(self) -> None:
        """Write a checkpoint."""
        self.journal.save(self.state, conditions(self.world, self.way, self.exact))

    def restore(self, now: dict[str, Any]) -> None:
        """Restore the newest undamaged checkpoint, if there is one.

        Args:
            now: The provenance of this process. The record of a run lists every part of the
                training that ran under other conditions than the part before it.
        """
        before = self.journal.go_back(self.state, self.reporter.note)
        known = self.parts.record["provenance"]
        self.parts.record["provenance"] = (
            now if before is None else with_stretch(known, now, self.at.epoch, self.at.step)
        )
        self.journal.write_record(self.parts.record)
        if before is None:
            return
        self.reporter.note(f"continues at epoch {self.at.epoch}, step {self.at.step}")
        if note := inexact_note(before, conditions(self.world, self.way, self.exact)):
            self.reporter.note(note)
            self.exact = False

    def finish(self) -> None:
        """Test the best weights once and write the final run.json."""
        self.state.return_to_best()
        outcome = self.objective.test(self.at.best_accuracy)
        self.journal.write_answers(outcome.correct)
        weights = hashlib.sha256(weights_bytes(self.state)).hexdigest()
        self.parts.record.update(status=FINISHED, weights_sha256=weights)
        self.parts.record["result"] = result(self.at, self.protocol, outcome)
        self.journal.write_record(self.parts.record)


def is_trained(folder: Path) -> bool:
    """Tell whether the run in a folder was trained to the end."""
    if not (folder / RECORD).is_file():
        return False
    record = read_record(folder)
    return isinstance(record, TrainedRun) and record.is_finished


TRAIN_STAGE = Stage(
    "train", RECORD, train_run, folder="out", kept=(LOG, ANSWERS), ended=is_trained, joint=True
)
