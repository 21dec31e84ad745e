"""What ``nearsight measure`` is pointed at: a run folder or a model by name."""

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
    """Measure a finished run, or a model on a folder of images; the path of measure.json."""
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
        raise UserError(f"expected a run folder with {RECORD} or a model; {error}") from error
    if images is None:
        raise UserError(f"expected images to measure {target} on, got none; give --images DIR")
    size = None if image_size is None else sides(image_size)
    return measure_named(
        target, images, out, weights=weights, pretrained=pretrained, random_init=random_init,
        image_size=size, resize=resize, localise=localise,
        skip_corrupt=skip_corrupt, **shared,
    )  # fmt: skip


def metric_names(text: str) -> Sequence[str] | str:
    """What ``--metrics`` asks for.

    >>> metric_names("mad, entropy")
    ('mad', 'entropy')
    """
    if text in ("default", "all"):
        return DEFAULT_METRICS if text == "default" else text
    return tuple(name.strip() for name in text.split(","))


def sides(text: str) -> tuple[int, int]:
    """Height and width of ``--image-size``.

    >>> sides("224"), sides("160x224")
    ((224, 224), (160, 224))
    """
    parts = text.lower().split("x")
    if not 1 <= len(parts) <= 2 or not all(part.isdecimal() and int(part) for part in parts):
        raise UserError(f"expected --image-size as N or HxW in pixels, got {text!r}")
    return int(parts[0]), int(parts[-1])


def _check_run(target: str, options: list[str]) -> None:
    """A run has its own weights and images; a measured model is measured again by its name."""
    record = read_record(Path(target))
    if isinstance(record, MeasuredModel):
        raise UserError(
            f"{target} holds the measurement of a model; to repeat it run "
            f"{record.provenance.command}"
        )
    if options:
        raise UserError(
            f"{target} is a run, which is measured with its own weights on its own test images: "
            f"leave out {', '.join(options)}"
        )


def _check_cell(folder: Path, asked: dict[str, Any]) -> None:
    """Refuse to measure the cell of a study in its folder as the study would not."""
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
            f"{folder} is a cell of a study, which its measurement belongs to; yours differs in "
            f"{', '.join(other)}: write it elsewhere with --out DIR"
        )
