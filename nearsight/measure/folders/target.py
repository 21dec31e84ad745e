"""Measure what the user names to ``nearsight measure``: a run folder or a model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from nearsight.core import UserError
from nearsight.measure.catalogue import DEFAULT_METRICS
from nearsight.measure.folders.model_folder import measure_named
from nearsight.measure.folders.run_folder import MEASURE_STAGE
from nearsight.models.load import check_name
from nearsight.runs import MEASURE, RECORD, measured_settings, read_record
from nearsight.runs.records import CELL_FILE, MeasuredModel


def measure_target(
    target: str,
    images: Path | None = None,
    out: Path | None = None,
    *,
    weights: Path | None = None,
    pretrained: bool = False,
    random_init: bool = False,
    num_images: int | None = None,
    resize: bool = True,
    skip_corrupt: bool = False,
    image_size: str | None = None,
    localise: str | None = None,
    convention: str = "paper",
    metrics: str = "default",
    batch_size: int = 32,
    device: str = "cpu",
    data_root: Path | None = None,
    force: bool = False,
    nulls: bool = True,
    progress: Callable[[int, int], None] | None = None,
) -> Path:
    """Measure a finished run on its test images, or a model on a folder of images.

    Args:
        target: A run folder, or the name of a model.
        images: For models: the folder of images.
        out: Where to write; by default the run folder or ``runs/<name>``.
        weights: For models: a file of weights.
        pretrained: For models: use pretrained weights.
        random_init: For models: measure the model at random initialisation.
        num_images: How many images to choose.
        resize: For models: resize and crop the images as the model needs them.
        skip_corrupt: For models: leave out images that cannot be read.
        image_size: For models: the size of the model's input, as N or HxW.
        localise: For models: make the model's attention local first.
        convention: How distances are counted.
        metrics: "default", "all", or names separated by commas.
        batch_size: Images per batch.
        device: Where to run the model.
        data_root: For runs: the folder of data sets.
        force: Overwrite a measurement with other settings.
        nulls: Also measure the null lines.
        progress: Called with the number of images done and the number of all images.

    Returns:
        The path of measure.json.

    Raises:
        UserError: If the target is unknown, or an option does not fit it.
    """
    chosen = metric_names(metrics)
    shared: dict[str, Any] = {
        "num_images": num_images, "convention": convention, "metrics": chosen,
        "batch_size": batch_size, "device": device, "force": force, "nulls": nulls,
        "progress": progress,
    }  # fmt: skip
    of_models = {
        "--images": images, "--weights": weights, "--pretrained": pretrained,
        "--random-init": random_init, "--no-resize": not resize, "--image-size": image_size,
        "--localise": localise, "--skip-corrupt": skip_corrupt,
    }  # fmt: skip
    if (Path(target) / RECORD).is_file():
        _check_run(target, [option for option, value in of_models.items() if value])
        if out is None:
            _check_cell(
                Path(target), {"device": device} | measured_settings(num_images, convention, chosen)
            )
        path = MEASURE_STAGE.run(Path(target), {"data_root": data_root, "out": out, **shared})
        return path if out is None else Path(out) / MEASURE
    try:
        check_name(target)
    except ValueError as error:
        raise UserError(
            f"{target} is neither a run folder with {RECORD} nor a model: {error}"
        ) from error
    if images is None:
        raise UserError(f"there are no images to measure {target} on; give --images DIR")
    size = None if image_size is None else parse_image_size(image_size)
    return measure_named(
        target, images, out, weights=weights, pretrained=pretrained, random_init=random_init,
        image_size=size, resize=resize, localise=localise,
        skip_corrupt=skip_corrupt, **shared,
    )  # fmt: skip


def metric_names(text: str) -> Sequence[str] | str:
    """Return the metrics that the value of ``--metrics`` names.

    >>> metric_names("mad, entropy")
    ('mad', 'entropy')
    """
    if text in ("default", "all"):
        return DEFAULT_METRICS if text == "default" else text
    return tuple(name.strip() for name in text.split(","))


def parse_image_size(text: str) -> tuple[int, int]:
    """Return height and width from the value of ``--image-size``.

    Raises:
        UserError: If it is neither N nor HxW.

    >>> parse_image_size("224"), parse_image_size("160x224")
    ((224, 224), (160, 224))
    """
    parts = text.lower().split("x")
    if not 1 <= len(parts) <= 2 or not all(part.isdecimal() and int(part) for part in parts):
        raise UserError(
            f"--image-size is {text!r}, but it must be N or HxW in pixels, such as 224 or 160x224"
        )
    return int(parts[0]), int(parts[-1])


def _check_run(target: str, options: list[str]) -> None:
    """Raise a UserError about options that a run does not take, or a folder of a measured model.

    A run is measured with its own weights and images. A model is measured again by its name.
    """
    record = read_record(Path(target))
    if isinstance(record, MeasuredModel):
        raise UserError(
            f"{target} holds the measurement of a model, not a run; to repeat the measurement, use "
            f"the command {record.provenance.command}"
        )
    if options:
        raise UserError(
            f"{target} is a run, which is measured with its own weights on its own test images; "
            f"leave out {', '.join(options)}"
        )


def _check_cell(folder: Path, asked: dict[str, Any]) -> None:
    """Raise a UserError if the folder is a cell of a study that plans another measurement."""
    if not (folder / CELL_FILE.name).is_file():
        return
    cell = CELL_FILE.read(folder)
    if cell.stages is None:  # format 1
        metrics = list(dict.fromkeys([*DEFAULT_METRICS, *(cell.metrics or ())]))
        planned = {"num_images": cell.measured_images, "metrics": metrics}
    else:
        planned = dict(cell.stages.get(MEASURE_STAGE.name, {}))
    planned = {"device": cell.device} | MEASURE_STAGE.complete(planned)
    other = [name for name, value in asked.items() if planned[name] != value]
    if other:
        raise UserError(
            f"{folder} is a cell of a study and must keep the measurement that the study plans, "
            f"but yours differs in {', '.join(other)}; write yours to another folder with --out DIR"
        )
