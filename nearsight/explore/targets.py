"""Gather the page of ``nearsight explore`` from run folders, folders of runs, studies or models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from nearsight.core import UserError
from nearsight.explore.exploration import Exploration
from nearsight.explore.folders import Found, find_folders
from nearsight.explore.runs_table import DAMAGED, run_rows, study_contents
from nearsight.explore.shown_model import (
    NUM_SHOWN,
    ShownModel,
    fit_page,
    subject_of_folder,
    subject_of_model,
)
from nearsight.runs import RECORD, WEIGHTS, read_record
from nearsight.runs.records import MeasuredModel, TrainedRun


def explore_targets(
    targets: Sequence[str],
    images: Path | None = None,
    *,
    num_images: int = NUM_SHOWN,
    weights: Sequence[Path] = (),
    pretrained: bool = False,
    random_init: bool = False,
    image_size: str | None = None,
    device: str = "cpu",
    data_root: Path | None = None,
) -> Exploration:
    """Gather what the page shows of runs and models.

    Args:
        targets: Run folders, folders that contain runs or studies, and names of models. If all are
            folders of runs, the page shows the first runs that were measured.
        images: A folder of images, or one image file. Required for models given by name. Without
            it a run shows the examples that ``nearsight measure`` stored, or images of its test
            set.
        num_images: Store the attention of this many images per target in the page.
        weights: Weight files of the models given by name, in their order.
        pretrained: Download weights from the hub for models without a file.
        random_init: Use random weights for models without a file.
        image_size: N or HxW in pixels, for models given by name.
        device: The device on which models run.
        data_root: The folder of data sets.

    Raises:
        UserError: If a target is neither a folder nor a model, or if images or weights are missing.
    """
    if not targets:
        raise UserError("there is nothing to explore; give at least one run folder or model")
    if num_images < 1:
        raise UserError(f"--num-images is {num_images}, but it must be at least 1")
    runs = [target for target in targets if (Path(target) / RECORD).is_file()]
    folders = [target for target in targets if target not in runs and Path(target).is_dir()]
    names = [target for target in targets if target not in runs and target not in folders]
    found = find_folders([Path(target) for target in (*runs, *folders)])
    for folder in folders:
        below = find_folders([Path(folder)])
        if not below.runs and not below.studies:
            raise UserError(
                f"{folder} contains no runs and no studies, so there is nothing to show; give a "
                "folder of runs, or the name of a model"
            )
    named = _named_subjects(
        names, images, num_images, weights, pretrained, random_init, image_size, device
    )
    subjects = [
        named[target]
        if target in named
        else _run_subject(target, images, num_images, device, data_root)
        for target in targets
        if target not in folders
    ]
    if not subjects:
        subjects = _stored_subjects(found)
    listed = folders or [subject.name for subject in subjects]
    title = " and ".join(map(_short, listed)) if len(listed) < 3 else f"{len(listed)} models"
    return gather_page(title, subjects, found)


def gather_page(title: str, subjects: Sequence[ShownModel], found: Found) -> Exploration:
    """Combine models, and the tables of runs and studies, into one page."""
    studies = [study_contents(name, folder) for name, folder in found.studies.items()]
    rows = tuple(run_rows(found.runs))
    return Exploration(title, number_equal_names(subjects), rows, tuple(studies))


def _stored_subjects(found: Found) -> list[ShownModel]:
    """Show as many of the measured runs below folders as fit.

    Damaged runs are left out here. The table of runs shows the reason.
    """
    subjects = []
    for name, folder in found.runs.items():
        try:
            subject = subject_of_folder(folder)
        except DAMAGED:
            continue
        if subject.examples or subject.numbers or subject.looks:
            subjects.append(replace(subject, name=name))
    return fit_page(subjects)


def _named_subjects(
    names: Sequence[str], images: Path | None, num_images: int, weights: Sequence[Path],
    pretrained: bool, random_init: bool, image_size: str | None, device: str,
) -> dict[str, ShownModel]:  # fmt: skip
    """Run models given by name on the images of a folder."""
    if not names:
        if weights:
            raise UserError(
                "--weights is only for models given by name, because runs have their own; leave "
                "it out"
            )
        if image_size:
            raise UserError(
                "--image-size is only for models given by name, because runs have their own size; "
                "leave it out"
            )
        return {}
    from nearsight.measure.maps import viewers

    found = viewers(names, weights, pretrained, random_init, image_size)
    if images is None:
        raise UserError(f"{names[0]} needs images to be shown on; give a folder with --images")
    return {
        target: _seen(viewer, images, num_images, device, image_detail(images))
        for target, viewer in zip(names, found)
    }


def _run_subject(
    target: str, images: Path | None, num_images: int, device: str, data_root: Path | None
) -> ShownModel:
    """Show a run's stored examples, or run it on images if it has none."""
    from nearsight.measure.maps import run_viewer

    folder = Path(target)
    stored = subject_of_folder(folder)
    if images is None and stored.examples is not None:
        return stored
    record = read_record(folder)
    if images is not None:
        viewer = (
            _recorded_viewer(record, folder)
            if isinstance(record, MeasuredModel)
            else run_viewer(target)
        )
        seen = _seen(viewer, images, num_images, device, image_detail(images))
    elif isinstance(record, TrainedRun) and (folder / WEIGHTS).is_file():
        seen = _seen_test_set(folder, num_images, device, data_root)
    else:
        return stored
    numbers = stored.numbers or seen.numbers
    return replace(stored, examples=seen.examples, numbers=numbers, note="")


def _seen(viewer: Any, images: Path, num_images: int, device: str, detail: str) -> ShownModel:
    """Run a model on the images of a folder, or on one image file, with its preprocessing."""
    from nearsight.explore.images import file_images, folder_names
    from nearsight.measure.folders import check_fit

    folder, names = images, [""]
    if images.is_file():
        folder, names = images.parent, [images.name]
    else:
        names = folder_names(images)
    found = file_images(folder, names, viewer.preprocessing)
    model = viewer.model.to(device)
    height, width = found.inputs.shape[-2:]
    check_fit(model, (height, width), viewer.name, device)
    return subject_of_model(viewer.name, model, found, num_images, detail)


def _seen_test_set(
    folder: Path, num_images: int, device: str, data_root: Path | None
) -> ShownModel:
    """Run the model of a run on some images of its own test set."""
    from nearsight.explore.images import NUM_MEASURED, run_images
    from nearsight.measure.folders import finished_run

    run, dataset = finished_run(folder, device, data_root)
    images = run_images(run, dataset, max(num_images, NUM_MEASURED))
    return subject_of_model(run.record.name, run.model, images, num_images)


def _recorded_viewer(record: MeasuredModel, folder: Path) -> Any:
    """Load the model whose measurement is in a folder, with the weights that its record names."""
    from nearsight.measure.maps import Viewer
    from nearsight.models.load import named_model

    weights = record.weights
    file = Path(weights.file) if weights.file else None
    if file is not None and not file.is_file():
        raise UserError(
            f"{folder} was measured with the weights {file}, which no longer exist; give the model "
            "by its name, with --weights"
        )
    found = named_model(
        record.model.name, file, weights.origin == "pretrained" and file is None,
        weights.origin == "random initialisation",
    )  # fmt: skip
    return Viewer(record.name, found.model, found.preprocessing)


def image_detail(images: Path) -> str:
    """Return the line below a model's name that says which images it was run on."""
    return f"images of {images.resolve().name}"


def number_equal_names(subjects: Sequence[ShownModel]) -> tuple[ShownModel, ...]:
    """Append numbers to the names of models that have the same name."""
    names = [subject.name for subject in subjects]
    return tuple(
        replace(x, name=f"{x.name} ({i + 1})") if names.count(x.name) > 1 else x
        for i, x in enumerate(subjects)
    )


def _short(name: str) -> str:
    return Path(name).name if Path(name).is_dir() else name
