"""Complete contents of the files of a run, for tests that need no training."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from nearsight.protocol.presets import preset
from nearsight.report.read.logged_looks import Look, looks_of
from nearsight.runs.records import LOG_FILE

DATA = {
    "name": "shapes", "hash": "00112233445566aa", "origin": "generated", "fraction": 1.0,
    "num_train": 800, "num_validation": 200, "num_test": 1009, "num_classes": 7,
    "classes": list("abcdefg"), "image_size": [12, 20], "mean": [0.5, 0.4, 0.3],
    "std": [0.2, 0.3, 0.25],
}  # fmt: skip
MODEL = {
    "name": "mu_vit", "num_classes": 7, "num_parameters": 12345, "grid": [3, 5], "num_prefix": 1,
    "image_size": [12, 20], "weights_hash": None,
}  # fmt: skip
PROVENANCE = {
    "command": "nearsight train baseline", "commit": "abc1234",
    "versions": {"python": "3.11.9", "torch": "2.9.0"},
    "hardware": {"device": "cpu", "threads": 1}, "started": "2026-11-15T22:00:00Z",
}  # fmt: skip
RESULT = {
    "best_epoch": 4, "num_epochs": 5, "steps": 35, "images_seen": 4000, "stopped_early": False,
    "validation_accuracy": 0.625, "test_accuracy": 0.5, "test_top5_accuracy": 0.75,
    "test_loss": 1.25, "num_test": 1009, "seconds": 61.5,
}  # fmt: skip


def run_contents(**changes: Any) -> dict[str, Any]:
    """Return run.json of a finished run; ``changes`` replace its keys."""
    protocol = asdict(preset("baseline", "shapes"))
    return {
        "schema_version": 1, "nearsight": "0.1.0", "protocol": protocol, "assumed": [], "seed": 0,
        "data": DATA, "model": MODEL, "teacher": None, "provenance": PROVENANCE,
        "status": "finished", "result": RESULT,
    } | changes  # fmt: skip


def model_contents(name: str = "vit_x", **changes: Any) -> dict[str, Any]:
    """Return run.json of a model that was only measured."""
    data = {"name": "pictures", "hash": "8899aabbccddeeff", "origin": "folder"}
    return {
        "schema_version": 1, "kind": "model", "status": "measured",
        "model": {"name": name, "source": "timm", "num_parameters": 54321},
        "weights": {"from": "pretrained"}, "notes": [], "provenance": PROVENANCE,
        "data": data | {"num_images": 11, "num_available": 101, "num_other_files": 2},
        "preprocessing": {"text": "none", "mean": [0.5, 0.5, 0.5], "std": [0.25, 0.25, 0.25]},
    } | changes  # fmt: skip


def measure_contents(**changes: Any) -> dict[str, Any]:
    """Return measure.json of one layer with two heads on 3x5 patches."""
    null = {
        f"{line}_{metric}": value
        for line, value in (("uniform", 0.5), ("box", 0.25))
        for metric in ("mad", "entropy", "self_mass")
    }
    heads = {"mean": [0.25, 0.375], "low": [0.2, 0.3], "high": [0.3, 0.4], "sd": [0.01, 0.02]}
    mean = {"value": 0.3125, "low": 0.25, "high": 0.35}
    place = {"layer": 1, "head": 1, "method": "bootstrap", "resamples": 1000}
    metrics = ("mad", "entropy", "self_mass")
    summary: dict[str, Any] = {f"mean_{metric}": mean for metric in metrics}
    summary |= {f"layer_mean_{metric}": [mean] for metric in metrics}
    summary |= {f"min_{metric}": mean | place for metric in metrics[:2]} | {"heads_below_box": 0}
    return {
        "schema_version": 2, "nearsight": "0.1.0",
        "convention": {"name": "paper", "unit": "grid diagonal", "text": "Patches only."},
        "num_images": 11, "grid": [3, 5], "num_prefix": 1, "num_layers": 1, "num_heads": [2],
        "null": null,
        "layers": [
            {"layer": 1, "name": "attn", "grid": [3, 5], "null": null}
            | dict.fromkeys(metrics, heads)
        ],
        "skipped": [{"name": "head", "reason": "one query"}], "unavailable": [],
        "summary": summary, "data": {"name": "shapes", "hash": "00112233445566aa"}, "seconds": 2.5,
    } | changes  # fmt: skip


def epoch_line(epoch: int, **more: Any) -> dict[str, Any]:
    """Return a line of train.jsonl; epoch 0 has no numbers of training."""
    line: dict[str, Any] = {"schema_version": 1, "epoch": epoch, "step": 7 * epoch}
    if epoch:
        line |= {"lr": 0.001, "train_loss": 2.0 / epoch, "train_accuracy": None}
        line |= {"validation_loss": 2.5 / epoch, "validation_accuracy": 0.25, "best": epoch == 1}
    return line | more


def looked(lines: list[dict[str, Any]]) -> list[Look]:
    """Return the looks in lines that have at least an epoch."""
    return looks_of([LOG_FILE.record(epoch_line(**line)) for line in lines], Path("run"))


def evaluate_contents(**changes: Any) -> dict[str, Any]:
    """Return evaluate.json of a model with one number."""
    data = {"name": "voc", "train": "ab", "val": "cd", "num_train": 11, "num_val": 7}
    number = {"name": "miou", "value": 0.5, "low": 0.25, "high": 0.75, "number": "miou"}
    result = {
        "task": "segmentation", "method": "logreg", "layer": 12, "place": "block", "subject": "vit",
        "identity": "ef", "control": None, "data": data | {"num_classes": 3},
        "settings": {"c": 1.0}, "numbers": [number | {"key": "01", "details": {}}], "seconds": 2.5,
    }  # fmt: skip
    return {
        "schema_version": 1, "model": "vit", "identity": "ef", "results": [result], "remarks": [],
        "provenance": PROVENANCE,
    } | changes  # fmt: skip


def causal_contents(**changes: Any) -> dict[str, Any]:
    """Return causal.json of a run with one layer of two heads."""
    part = {"value": 0.0625, "low": 0.03125, "high": 0.125, "num_images": 97}
    counts = {"num_spoilt": 8, "num_mended": 2, "p": 0.25, "p_holm": 0.5}
    layer = {"layer": 1, "name": "attn", "grid": [3, 5], "inside": [0.5, 0.25]}
    return {
        "schema_version": 1, "window": 3, "num_images": 97, "num_available": 1009, "image_seed": 0,
        "split": "test", "accuracy": 0.625, "layers": [layer | {"uniform_inside": 0.4375}],
        "lost": [{"heads": "1.2", "change": "inside", **part, **counts}], "remarks": [],
        "seconds": 2.5, "provenance": PROVENANCE,
    } | changes  # fmt: skip
