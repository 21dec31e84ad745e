"""Write the record of a new run, and check whether a folder contains the same run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from torch import nn

import nearsight
from nearsight.core import UserError, World
from nearsight.data.sets import Dataset
from nearsight.protocol import Protocol, assumed_values, protocol_from, spoken_name, stored_settings
from nearsight.runs import RECORD, SCHEMA_VERSION, file_hash, provenance, read_record, settle
from nearsight.runs.records import RunRecord, TrainedRun, origin_text
from nearsight.train.objectives import FinalScores
from nearsight.train.state import Counters


def new_record(
    protocol: Protocol,
    seed: int,
    dataset: Dataset,
    split_sizes: tuple[int, int],
    model: nn.Module,
    num_classes: int,
    image_size: tuple[int, int],
    world: World,
    teacher: dict[str, Any] | None,
) -> dict[str, Any]:
    """Return the content of run.json for a run that starts now.

    Args:
        protocol: The settings.
        seed: The seed of the run.
        dataset: The data set.
        split_sizes: The numbers of training and validation images.
        model: The model.
        num_classes: The number of outputs of its head.
        image_size: Height and width of its input.
        world: The processes of the run.
        teacher: What to record about the teacher, if the run is distilled.
    """
    grid = getattr(model, "grid", None)
    patch_grid = getattr(getattr(model, "patch_embed", None), "grid_size", None)
    weights = protocol.model.weights
    return {
        "schema_version": SCHEMA_VERSION,
        "nearsight": nearsight.__version__,
        "protocol": _listed(stored_settings(protocol)),
        "assumed": sorted(assumed_values(protocol)),
        "seed": seed,
        "data": {
            "name": dataset.name,
            "hash": dataset.hash,
            "origin": dataset.origin,
            "identity": dataset.identity,
            "fraction": protocol.data.fraction,
            "num_train": split_sizes[0],
            "num_validation": split_sizes[1],
            "num_test": len(dataset.test.labels),
            "num_classes": len(dataset.classes),
            "classes": list(dataset.classes),
            "image_size": list(dataset.train.images.shape[2:]),
            "mean": list(dataset.mean),
            "std": list(dataset.std),
        },
        "model": {
            "name": protocol.model.name,
            "num_classes": num_classes,
            "num_parameters": sum(p.numel() for p in model.parameters()),
            "grid": [grid.rows, grid.cols] if grid else list(patch_grid) if patch_grid else None,
            "num_prefix": getattr(model, "num_prefix", getattr(model, "num_prefix_tokens", 0)),
            "image_size": list(image_size),
            "weights_hash": file_hash(Path(weights)) if weights else None,
        },
        "teacher": teacher,
        "provenance": provenance(str(world.device), world.size),
        "status": "running",
        "result": None,
    }


def _listed(value: Any) -> Any:
    """Turn tuples into lists, as they are after reading JSON."""
    if isinstance(value, dict):
        return {key: _listed(inner) for key, inner in value.items()}
    return list(value) if isinstance(value, tuple) else value


def outcome_text(record: RunRecord) -> str:
    """Describe the result of a finished run; empty for any other."""
    if not isinstance(record, TrainedRun) or record.result is None:
        return ""
    found = record.result
    kind = "test accuracy" if found.test_accuracy is not None else "test accuracy of k-NN"
    return (
        f"{kind} {found.main_accuracy or 0.0:.1%} on {found.num_test:,} images, with the weights "
        f"of epoch {found.best_epoch} of {found.num_epochs}"
    )


def headline(record: dict[str, Any], notes: Sequence[str]) -> str:
    """Describe in one line what is trained on which data, and add a line for each note."""
    data, model = record["data"], record["model"]
    used = record["provenance"]["hardware"]
    part = "" if data["fraction"] == 1 else f"{100 * data['fraction']:g} % of "
    processes = f", {used['processes']} processes" if used["processes"] > 1 else ""
    return "\n".join(
        [
            f"{spoken_name(record['protocol']['name'])}, seed {record['seed']}: {model['name']} "
            f"({model['num_parameters'] / 1e6:.2f} M parameters) on {part}{data['name']} "
            f"({origin_text(data['origin'])}): "
            f"{data['num_train']:,} training and {data['num_validation']:,} validation images. "
            f"{used['device']}, {used['threads']} thread{'s' * (used['threads'] != 1)}{processes}",
            *notes,
        ]
    )


def existing_record(folder: Path, protocol: Protocol, seed: int) -> TrainedRun | None:
    """Return the run.json of a folder if it belongs to this run, or None if there is none.

    Raises:
        UserError: If the folder contains another run, or the measurement of a model.
    """
    if not (folder / RECORD).exists():
        return None
    record = read_record(folder)
    if not isinstance(record, TrainedRun):
        raise UserError(
            f"{folder} contains the measurement of a model; choose another folder with --out"
        )
    # Settings that were added later have their defaults; paths may have been recorded as relative.
    there = asdict(settle(protocol_from(record.protocol))[0])
    changed = [key for key, value in asdict(protocol).items() if there[key] != value]
    if record.seed != seed:
        changed.append("seed")
    if changed:
        named = f"{record.protocol['name']}, seed {record.seed}"
        raise UserError(
            f"{folder} contains another run ({named}), which differs in {', '.join(changed)}; "
            "choose another folder with --out (nothing was changed)"
        )
    return record


def check_same_inputs(folder: Path, old: TrainedRun, new: dict[str, Any]) -> None:
    """Check that data, starting weights and teacher are those with which the run began.

    Raises:
        UserError: If one of them has changed.
    """
    pairs = {
        "data": (old.data.hash, new["data"]["hash"]),
        "starting weights": (old.model.weights_hash, new["model"]["weights_hash"]),
        "teacher's weights": (
            old.teacher.weights_hash if old.teacher else None,
            new["teacher"]["weights_hash"] if new["teacher"] else None,
        ),
    }
    for what, (before, now) in pairs.items():
        if before != now:
            raise UserError(
                f"the {what} of {folder} changed since the run began (hash {before}, now {now}); "
                "restore them, or start a new run with --out"
            )


SAME = ("commit", "versions", "hardware", "native")  # a new stretch begins when one of them changes


def with_stretch(
    known: dict[str, Any], now: dict[str, Any], epoch: int, step: int
) -> dict[str, Any]:
    """Return the provenance of a run that continues in this process.

    A stretch is a part of the training under the same software and hardware.

    Args:
        known: The provenance so far.
        now: The provenance of this process. It is added as a new stretch if it differs from the
            last one, for example in a version, the threads or the compiled code.
        epoch: The epoch in which the run continues.
        step: The number of its steps that were done before.
    """
    stretches = known.get("stretches", [])
    last = stretches[-1] if stretches else known
    if all(last.get(name) == now.get(name) for name in SAME):
        return known
    return known | {"stretches": [*stretches, now | {"from_epoch": epoch, "from_step": step}]}


def result(counters: Counters, protocol: Protocol, outcome: FinalScores) -> dict[str, Any]:
    """Return the result of a finished run for run.json.

    Args:
        counters: The counters at the end of training.
        protocol: The settings.
        outcome: The scores of the best weights.
    """
    return {
        "best_epoch": counters.best_epoch,
        "num_epochs": counters.epoch - 1,
        "steps": counters.total_steps,
        "images_seen": counters.images_seen,
        "stopped_early": counters.epoch <= protocol.epochs,
        **outcome.result,
        "num_test": len(outcome.correct),
        "seconds": sum(line["seconds"] for line in counters.timing),
    }
