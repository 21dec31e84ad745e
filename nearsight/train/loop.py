"""Training, readable in one place: ``train_run`` opens the folder, ``Training`` goes through the epochs.

AdamW, warm-up and cosine, early stopping and best checkpoint on validation accuracy, the test set once at the
end. A run that is started again continues; in eager float32 on a CPU it ends with the same bytes.
"""

from __future__ import annotations

import json
import math
import os
import time
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import safetensors.torch
import torch

from nearsight.protocol.overrides import fitted_warmup
from nearsight.protocol.schema import Protocol
from nearsight.run import (
    CHECKPOINT,
    LOG,
    RECORD,
    SCHEMA_VERSION,
    TIMING,
    WEIGHTS,
    locked,
    write_bytes,
    write_json,
)  # fmt: skip
from nearsight.train.batches import Batch, epoch_batches, num_steps
from nearsight.train.checkpoint import load_checkpoint, save_checkpoint
from nearsight.train.distributed import Parallel, World, copy_into, joined
from nearsight.train.interruption import Interrupted, StopRequest, stop_signals
from nearsight.train.loss import soft_cross_entropy
from nearsight.train.optim import learning_rate
from nearsight.train.preparation import Prepared, prepare
from nearsight.train.progress import Reporter
from nearsight.train.record import check_same_inputs, existing_record
from nearsight.train.state import Counters
from nearsight.train.trackers import Tracker, open_tracker, tracked_values
from nearsight.train.validation import accuracy_and_loss

CHECKPOINT_SECONDS = 300.0  # longest time between two checkpoints, also within an epoch
_AUTOCAST = {"bf16": torch.bfloat16, "fp16": torch.float16}


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
    """Train a run into the folder ``out`` and return it; started again, it continues."""
    out = Path(out)
    protocol, note = fitted_warmup(protocol)
    with ExitStack() as stack:
        world = stack.enter_context(joined(device))
        if reporter is None or not world.is_main:
            reporter = Reporter(quiet=not world.is_main)
        if world.is_main:
            out.mkdir(parents=True, exist_ok=True)
            stack.enter_context(locked(out))
        old = existing_record(out, protocol, seed)
        if old and old["status"] == "finished":
            reporter.note(f"{out} is finished; nothing to do")
            return out
        if note:
            reporter.note(note)
        parts = prepare(protocol, seed, world, data_root, compiled, parallel)
        if old:
            check_same_inputs(out, old, parts.record)
            parts.record["provenance"] = old["provenance"]
        opened = []
        if world.is_main:
            write_json(out / RECORD, parts.record)
            opened = [open_tracker(name, out, parts.record) for name in trackers]
        way = {"compiled": compiled, "parallel": parallel}
        training = Training(protocol, out, seed, world, parts, reporter, opened, way)
        try:
            training.restore()
            with stop_signals() as request:
                training.to_the_end(request)
        finally:
            reporter.close()
            for tracker in opened:
                tracker.close()
    return out


@dataclass
class Training:
    """A run under way."""

    protocol: Protocol
    out: Path
    seed: int
    world: World
    parts: Prepared
    reporter: Reporter
    trackers: list[Tracker]
    way: dict[str, Any]  # how the model is called; decides whether resuming is exact

    def __post_init__(self) -> None:
        self.state = self.parts.state
        self.steps_per_epoch = num_steps(len(self.parts.train.indices), self.protocol.batch_size)
        self.num_steps = self.protocol.epochs * self.steps_per_epoch
        self.autocast = _AUTOCAST.get(self.protocol.precision)

    @property
    def at(self) -> Counters:
        return self.state.counters

    def to_the_end(self, request: StopRequest) -> None:
        self.reporter.start(
            self.header(), self.protocol.epochs, self.steps_per_epoch, self.at.total_steps
        )
        while not self.finished():
            self.one_epoch(request)
        self.finish()

    def header(self) -> str:
        data, model = self.parts.record["data"], self.parts.record["model"]
        world = self.world
        threads = f"{torch.get_num_threads()} threads" if world.device.type == "cpu" else ""
        where = ", ".join(filter(None, [str(world.device), threads, f"{world.size} processes"]))
        notes = "".join(f"\n{note}" for note in self.parts.notes)
        return (
            f"{self.protocol.name}, seed {self.seed}: {model['name']} "
            f"({model['num_parameters'] / 1e6:.2f} M parameters) on {data['name']} "
            f"({data['num_train']} train, {data['num_validation']} validation, {data['origin']}), "
            f"{where}{notes}"
        )

    def finished(self) -> bool:
        patience = self.protocol.patience
        waited = self.at.epoch - 1 - self.at.best_epoch
        return self.at.epoch > self.protocol.epochs or (patience is not None and waited >= patience)

    def one_epoch(self, request: StopRequest) -> None:
        """Train the rest of the epoch under way, validate, log, checkpoint."""
        began = saved = time.monotonic()
        batches = epoch_batches(
            self.parts.train, self.parts.transform, protocol=self.protocol, seed=self.seed,
            epoch=self.at.epoch, first_step=self.at.step, world=self.world,
        )  # fmt: skip
        for batch in batches:
            self.one_step(batch)
            if self.at.step == self.steps_per_epoch:
                break
            due = self.world.is_main and time.monotonic() - saved > CHECKPOINT_SECONDS
            stop, save = self.world.total([float(request.signum), float(due)])
            if stop or save:
                self.at.epoch_seconds += time.monotonic() - began
                self.save()
                began = saved = time.monotonic()
            if stop:
                raise Interrupted(request.signum, self.out)
        line = self.epoch_line()
        self.at.epoch_seconds += time.monotonic() - began
        self.log(line)
        self.at.begin_epoch()
        self.save()
        (stop,) = self.world.total([float(request.signum)])
        if stop and not self.finished():
            raise Interrupted(request.signum, self.out)

    def one_step(self, batch: Batch) -> None:
        """Forward, backward, update, count."""
        rate = self.rate()
        for group in self.state.optimizer.param_groups:
            group["lr"] = rate
        with self.casting():
            logits = self.parts.called(batch.images)
            losses = soft_cross_entropy(logits, batch.targets)
        correct = 0.0 if batch.mixed else float((logits.argmax(-1) == batch.labels).sum())
        loss_sum, correct = self.world.total([float(losses.detach().double().sum()), correct])
        if not math.isfinite(loss_sum):
            raise ValueError(
                f"the loss became {loss_sum} in epoch {self.at.epoch} at learning rate {rate:.3g}; "
                f"{self.out} keeps the last good state"
            )
        # DDP and FSDP average over processes: undo that, then divide by the global batch
        self.update(losses.sum() * (self.world.size / batch.global_size))
        self.at.loss_sum += loss_sum
        self.at.num_correct += correct
        self.at.num_unmixed += 0 if batch.mixed else batch.global_size
        self.at.step += 1
        self.at.total_steps += 1
        self.at.images_seen += batch.global_size
        self.reporter.step(self.at.epoch, loss_sum / batch.global_size, batch.global_size)

    def rate(self) -> float:
        """The learning rate of the next step."""
        warmup = round(self.protocol.warmup_epochs * self.steps_per_epoch)
        peak = self.protocol.optimizer.lr
        return learning_rate(self.at.total_steps, self.num_steps, warmup, peak)

    def casting(self) -> Any:
        if self.autocast is None:
            return nullcontext()
        return torch.autocast(self.world.device.type, self.autocast)

    def update(self, loss: torch.Tensor) -> None:
        """One step of the optimizer down the gradient of ``loss``."""
        state, clip = self.state, self.protocol.optimizer.clip_norm
        state.optimizer.zero_grad(set_to_none=True)
        state.scaler.scale(loss).backward()  # type: ignore[no-untyped-call]
        if clip is not None:
            state.scaler.unscale_(state.optimizer)
            torch.nn.utils.clip_grad_norm_(state.model.parameters(), clip)
        state.scaler.step(state.optimizer)
        state.scaler.update()
        if state.average is not None:
            state.average.update(state.model, self.at.total_steps)

    def epoch_line(self) -> dict[str, Any]:
        """The line of train.jsonl for the epoch just trained; keeps the weights if they are best."""
        train, at = self.parts.train, self.at
        with self.averaged():
            accuracy, loss = accuracy_and_loss(
                self.parts.called, train.images, train.labels, self.parts.validation,
                self.parts.transform, self.world, self.autocast,
            )  # fmt: skip
            if not math.isfinite(loss):
                raise ValueError(
                    f"the validation loss became {loss} in epoch {at.epoch} at learning rate "
                    f"{self.rate():.3g}; {self.out} keeps the last good state"
                )
            best = accuracy > at.best_accuracy
            if best:
                at.best_epoch, at.best_accuracy = at.epoch, accuracy
                self.state.keep_as_best()
        return {
            "schema_version": SCHEMA_VERSION,
            "epoch": at.epoch,
            "step": at.total_steps,
            "lr": self.state.optimizer.param_groups[0]["lr"],
            "train_loss": at.loss_sum / len(train.indices),
            "train_accuracy": at.num_correct / at.num_unmixed if at.num_unmixed else None,
            "validation_loss": loss,
            "validation_accuracy": accuracy,
            "best": best,
        }

    def averaged(self) -> Any:
        """The moving average in the model's place, if the protocol has one."""
        average = self.state.average
        return nullcontext() if average is None else average.swapped_in(self.state.model)

    def log(self, line: dict[str, Any]) -> None:
        seconds = self.at.epoch_seconds
        speed = len(self.parts.train.indices) / seconds
        timing = {"epoch": line["epoch"], "seconds": seconds, "images_per_second": speed}
        self.at.log.append(line)
        self.at.timing.append(timing)
        self.reporter.epoch(line, seconds, speed)
        if self.world.is_main:
            _append(self.out / LOG, line)
            _append(self.out / TIMING, timing)
            if line["best"]:
                self.write_weights()
        for tracker in self.trackers:
            tracker.log(line["epoch"], tracked_values(line))

    def write_weights(self) -> None:
        write_bytes(self.out / WEIGHTS, safetensors.torch.save(self.state.best))

    def save(self) -> None:
        tensors = self.state.tensors()
        if self.world.is_main:
            state = {**self.state.facts(), "conditions": self.conditions()}
            save_checkpoint(self.out / CHECKPOINT, self.at.total_steps, tensors, state)

    def conditions(self) -> dict[str, Any]:
        """What must not change for a resumed run to end with the same bytes."""
        return {
            "device": self.world.device.type,
            "threads": torch.get_num_threads(),
            "processes": self.world.size,
            "torch": torch.__version__,
            **self.way,
        }

    def restore(self) -> None:
        """Go back to the newest sound checkpoint, or to the start; cut the logs to it."""
        found = load_checkpoint(self.out / CHECKPOINT, self.reporter.note)
        if found is not None:
            tensors, facts = found
            self.state.restore(tensors, facts)
            self.reporter.note(f"continues at epoch {self.at.epoch}, step {self.at.step}")
            now = self.conditions()
            changed = [key for key, value in facts["conditions"].items() if now.get(key) != value]
            exact = now["device"] == "cpu" and not now["compiled"] and self.autocast is None
            if changed or not exact:
                why = f"{', '.join(changed)} changed" if changed else "only eager float32 on CPU is"
                self.reporter.note(f"not bit-exact: {why}")
        if self.world.is_main:
            for name, lines in ((LOG, self.at.log), (TIMING, self.at.timing)):
                write_bytes(self.out / name, b"".join(map(_line, lines)))
            if self.state.best:
                self.write_weights()
        self.world.wait()

    def finish(self) -> None:
        """Test the best weights once and close the record."""
        for name, target in self.state.model.state_dict().items():
            copy_into(target, self.state.best[name])
        test = self.parts.test
        labels = torch.from_numpy(test.labels.astype("int64"))
        accuracy, loss = accuracy_and_loss(
            self.parts.called, test.images, labels, torch.arange(len(labels)),
            self.parts.transform, self.world, self.autocast,
        )  # fmt: skip
        self.parts.record["status"] = "finished"
        self.parts.record["result"] = {
            "best_epoch": self.at.best_epoch,
            "num_epochs": self.at.epoch - 1,
            "steps": self.at.total_steps,
            "images_seen": self.at.images_seen,
            "stopped_early": self.at.epoch <= self.protocol.epochs,
            "validation_accuracy": self.at.best_accuracy,
            "test_accuracy": accuracy,
            "test_loss": loss,
            "num_test": len(labels),
            "seconds": sum(line["seconds"] for line in self.at.timing),
        }
        if self.world.is_main:
            write_json(self.out / RECORD, self.parts.record)


def _line(content: dict[str, Any]) -> bytes:
    return (json.dumps(content) + "\n").encode()


def _append(path: Path, content: dict[str, Any]) -> None:
    with path.open("ab") as file:
        file.write(_line(content))
        file.flush()
        os.fsync(file.fileno())
