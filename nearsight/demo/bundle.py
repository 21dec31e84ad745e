"""Find, copy and replace the trained models that come with nearsight.

To replace the models, train each one with the command in its run.json, and then run ``python -m
nearsight.demo.bundle RUN...`` with the new run folders. A model is named after its run folder.
"""

from __future__ import annotations

import hashlib
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from nearsight.core import UserError
from nearsight.runs import LOG, RECORD, WEIGHTS, read_record, write_json
from nearsight.runs.records import TrainedRun

FOLDER = Path(__file__).parent / "models"
NUM_RECORDED = 64  # test images on which the recorded numbers were measured
RECORDED = "recorded"  # the key of these numbers in run.json


def bundled_models(folder: Path = FOLDER) -> list[Path]:
    """Return the run folders of the bundled models, the plain ViT first."""
    return sorted(
        (path for path in folder.iterdir() if (path / RECORD).is_file()),
        key=lambda path: (path.name != "plain", path.name),
    )


def copy_models(out: Path) -> list[Path]:
    """Copy the bundled models to ``out``, where they can be measured, and return their run folders.

    Raises:
        UserError: If a folder in ``out`` has the name of a model but contains a different run.
    """
    copies = []
    for source in bundled_models():
        target = out / source.name
        if (target / RECORD).is_file() and _key(target) != _key(source):
            raise UserError(
                f"{target} contains a run that is not the demo's; choose another folder with --out"
            )
        target.mkdir(parents=True, exist_ok=True)
        for name in (RECORD, LOG, WEIGHTS):
            shutil.copyfile(source / name, target / name)
        copies.append(target)
    return copies


def _key(folder: Path) -> tuple[object, ...]:
    record = read_record(folder)
    assert isinstance(record, TrainedRun)
    return record.protocol, record.seed, record.data.hash


def bundle_run(run: Path, folder: Path = FOLDER) -> Path:
    """Add a finished run to the bundled models, with its weights in half precision.

    The run is measured, and its numbers are stored in run.json. A test compares later measurements
    with them.
    """
    from safetensors.torch import load_file, save_file

    from nearsight.measure.folders import finished_run
    from nearsight.runs import MEASURE, read_json

    finished_run(run)  # raises an error if training has not finished
    target = folder / run.name
    target.mkdir(parents=True, exist_ok=True)
    weights = load_file(run / WEIGHTS)
    halves = {key: x.half() if x.is_floating_point() else x for key, x in weights.items()}
    save_file(halves, target / WEIGHTS)
    shutil.copyfile(run / LOG, target / LOG)
    contents = read_json(run / RECORD)
    contents["weights_sha256"] = hashlib.sha256((target / WEIGHTS).read_bytes()).hexdigest()
    write_json(target / RECORD, contents)
    contents[RECORDED] = recorded_numbers(target)
    write_json(target / RECORD, contents)
    assert not (target / MEASURE).exists()
    return target


def recorded_numbers(folder: Path, data_root: Path | None = None) -> dict[str, object]:
    """Measure a run and return the mean MAD and entropy of every head, [layer][head]."""
    import torch

    from nearsight.measure.folders import chosen_images, finished_run
    from nearsight.measure.profile import measure_model

    run, dataset = finished_run(folder, data_root=data_root)
    images = dataset.test.images[chosen_images(len(dataset.test.images), NUM_RECORDED)]
    profile = measure_model(run.model, run.transform(torch.from_numpy(images)))
    numbers = {
        name: [mean.tolist() for mean in profile.metrics[name].mean] for name in ("mad", "entropy")
    }
    return {"num_images": NUM_RECORDED, **numbers}


def main(runs: Sequence[str]) -> None:
    """Add each run folder to the bundled models."""
    for run in runs:
        print(bundle_run(Path(run)))


if __name__ == "__main__":
    main(sys.argv[1:])
