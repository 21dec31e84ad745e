"""Evaluate models, given as a module, a run folder or a name, one at a time or several at once."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import nn

from nearsight.core import UserError
from nearsight.data.input import Preprocessing
from nearsight.evaluate.bench_runner import Say, estimate_subject, evaluate_subject
from nearsight.evaluate.benches import Progress, Settings
from nearsight.evaluate.features import Subject, open_subject, subject_of
from nearsight.evaluate.result import Evaluation
from nearsight.measure.folders import default_folder, finished_run, parse_image_size
from nearsight.measure.localise import read_locality
from nearsight.runs import EVALUATE, RECORD, Stage, read_evaluate
from nearsight.runs.records import RECORDS


def evaluate_model(
    model: nn.Module | str | Path,
    data: str | None = None,
    tasks: str | Sequence[str] = "segmentation",
    *,
    weights: Path | None = None,
    pretrained: bool = False,
    random_init: bool = False,
    name: str | None = None,
    preprocessing: Preprocessing | None = None,
    image_size: tuple[int, int] | None = None,
    localise: str | None = None,
    say: Say = print,
    progress: Progress | None = None,
    **settings: Any,
) -> Evaluation:
    """Evaluate the frozen features of a model.

    Args:
        model: A module, a run folder, or a name with ``weights``, ``pretrained`` or
            ``random_init``.
        data: The name or path of a data set.
        tasks: Names of tasks (see ``nearsight evaluate --help``).
        weights: A weight file, for a model given by name.
        pretrained: Download weights from the hub, for a model given by name.
        random_init: Use random weights, for a model given by name.
        name: The name of a module in tables.
        preprocessing: The preprocessing of the images, for a module.
        image_size: Height and width in pixels. By default the model's own.
        localise: Make the attention local, as in ``gaussian:1@last3`` (see ``ns.localise``).
        say: Called with an estimate of time and space before the evaluation starts.
        progress: Called with the number of finished steps and of all steps.
        settings: Fields of ``Settings``: method, layer, place, num_train, options, ...

    Returns:
        Scores with intervals. ``to_pandas()`` returns them as a table, and ``compare(other)``
        returns paired differences from another model.

    >>> scores = evaluate_model("runs/baseline-0", tasks="knn")  # doctest: +SKIP
    >>> scores.to_pandas()  # doctest: +SKIP
    """
    device = settings.get("device", "cpu")
    locality = None if localise is None else read_locality(localise)
    if isinstance(model, nn.Module):
        subject = subject_of(model, name, preprocessing, image_size, device, locality)
    else:
        subject = open_subject(
            str(model), weights=weights, pretrained=pretrained, random_init=random_init,
            image_size=image_size, device=device, locality=locality,
        )  # fmt: skip
    words = tasks if isinstance(tasks, str) else ",".join(tasks)
    chosen = Settings(tasks=words, data=data, **{"options": {}, **settings})
    return evaluate_subject(subject, chosen, say=say, progress=progress)


def evaluate_run(
    path: Path,
    tasks: str = "knn",
    data: str | None = None,
    method: str | None = None,
    layer: str = "last",
    place: str | None = None,
    image_size: str | None = None,
    num_train: int | None = None,
    num_val: int | None = None,
    options: Mapping[str, Any] | None = None,
    controls: bool = True,
    device: str = "cpu",
    data_root: Path | None = None,
    progress: Progress | None = None,
) -> Path:
    """Evaluate the frozen features of a finished run and write ``evaluate.json`` into its folder.

    The default task is k-NN on the data set that the run was trained on. The other arguments are
    those of ``Settings``.
    """
    path = Path(path)
    run, _ = finished_run(path, device, data_root)
    found = evaluate_model(
        path, data or run.protocol.data.name, tasks, method=method, layer=layer, place=place,
        image_size=None if image_size is None else parse_image_size(image_size),
        num_train=num_train, num_val=num_val, options=options or {}, controls=controls,
        device=device, data_root=data_root, say=lambda text: None, progress=progress,
    )  # fmt: skip
    return found.write(path, device)


def evaluate_targets(
    targets: Sequence[str],
    settings: Settings,
    *,
    weights: Sequence[Path] = (),
    pretrained: bool = False,
    random_init: bool = False,
    image_size: tuple[int, int] | None = None,
    localise: Sequence[str] = (),
    out: Path | None = None,
    estimate: bool = False,
    say: Say = print,
    progress: Progress | None = None,
) -> list[tuple[Path, Evaluation]]:
    """Evaluate several runs or models one after another and write evaluate.json for each.

    Args:
        targets: Run folders, or names of models.
        settings: What to evaluate.
        weights: Weight files, one for each model given by name.
        pretrained: Download weights from the hub for models given by name.
        random_init: Use random weights for models given by name.
        image_size: Height and width in pixels. By default each model's own.
        localise: Evaluate each model unchanged, and then with each of these localities.
        out: The folder to write for a single model. By default ``runs/<name>``. Results with local
            attention go to a folder beside it, with the locality in its name.
        estimate: Only estimate time and space, without evaluating anything.
        say: Called with an estimate of time and space before each evaluation.
        progress: Called with the number of finished steps and of all steps.

    Returns:
        The folder and the evaluation of every target.

    Raises:
        UserError: If two models would be written to one folder, or a folder already has the
            evaluation of other weights.
    """
    names = [target for target in targets if not _is_run(target)]
    if weights and len(weights) != len(names):
        raise UserError(
            f"there are {len(weights)} weight files for {len(names)} models; give --weights once "
            "for each model, in the order of the models"
        )
    if out is not None and len(targets) > 1:
        raise UserError(
            f"--out is one folder, but there are {len(targets)} models; leave out --out"
        )
    if repeated := [name for name in names if names.count(name) > 1]:
        raise UserError(
            f"{repeated[0]} is given more than once, so its results would overwrite each other; "
            "evaluate the models one at a time, each with its own --out"
        )
    files = dict(zip(names, weights))
    localities = [None, *map(read_locality, localise)]
    found = []
    for target, locality in itertools.product(targets, localities):
        own = {} if _is_run(target) else {"pretrained": pretrained, "random_init": random_init}
        subject = open_subject(
            target, weights=files.get(target), image_size=image_size, device=settings.device,
            locality=locality, **own,
        )  # fmt: skip
        if estimate:
            say(f"{subject.name}: {estimate_subject(subject, settings).text()}")
            continue
        folder = out or (Path(target) if _is_run(target) else default_folder(target))
        if locality is not None:
            folder = folder.parent / default_folder(f"{folder.name}-{locality}").name
        if not _is_run(target):
            _refuse_others(folder, subject)
        evaluation = evaluate_subject(subject, settings, say=say, progress=progress)
        evaluation.write(folder, settings.device)
        found.append((folder, evaluation))
    return found


def _refuse_others(folder: Path, subject: Subject) -> None:
    """Check that a folder has no evaluation of other weights, which would be overwritten.

    Raises:
        UserError: If it has.
    """
    if not (folder / EVALUATE).is_file():
        return
    if read_evaluate(folder).identity != subject.identity:
        raise UserError(
            f"{folder} has the evaluation of other weights, or of the same weights at another "
            f"image size; choose another folder with --out, or delete {folder / EVALUATE}"
        )


def _is_run(target: str) -> bool:
    return (Path(target) / RECORD).is_file()


EVALUATE_STAGE = Stage("evaluate", EVALUATE, evaluate_run, kept=(EVALUATE, RECORDS))
