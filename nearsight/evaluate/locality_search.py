"""Find the locality that helps a model most on training images, and score it on other images.

Width and layers are chosen by scoring held-out training images. Only the chosen setting, the plain
model and the controls are then scored on the validation images, with differences paired over
images. The controls are those of ``locality_candidates``, and the features of the best earlier
layer of the plain model.

If a control has a setting (the threshold of sinks, the number of the earlier layer), it is chosen
on the same training images, so that each control is as strong as it can be.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from nearsight.core import UserError
from nearsight.data.input import Preprocessing, find_pictures
from nearsight.evaluate.attention_summary import layer_means, prefix_shares
from nearsight.evaluate.bench_runner import Say
from nearsight.evaluate.benches import Settings
from nearsight.evaluate.features import (
    Preparation,
    Split,
    Subject,
    class_answers,
    image_batches,
    open_labels,
    open_masks,
    open_subject,
    spread,
)
from nearsight.evaluate.locality_candidates import (
    SearchSettings,
    candidates,
    controls_of,
    sinks_of,
)
from nearsight.evaluate.locality_scores import NUMBER, Scored, Scorer, interval_contents
from nearsight.evaluate.task_outcome import TaskOutcome
from nearsight.measure.folders import default_folder
from nearsight.measure.localise import Locality
from nearsight.protocol import UNTRAINED
from nearsight.runs import SCHEMA_VERSION, provenance
from nearsight.runs.records import LOCALISE_FILE
from nearsight.stats import image_interval, paired_image_interval, weighted_mean

NUM_MEASURED = 64  # images for the distance of each layer


def search_locality(
    target: str,
    settings: SearchSettings,
    *,
    weights: Path | None = None,
    pretrained: bool = False,
    random_init: bool = False,
    image_size: tuple[int, int] | None = None,
    out: Path | None = None,
    say: Say = print,
) -> Path:
    """Search for the width and the layers that help a model most, and write localise.json.

    They are chosen on training images; the choice is then scored on the validation images. Scores
    are cached, so that an interrupted search continues.

    Args:
        target: A run folder, or the name of a model.
        settings: What to try, and on which images.
        weights: A weight file, for a model given by name.
        pretrained: Download weights from the hub, for a model given by name.
        random_init: Use random weights, for a model given by name.
        image_size: Height and width in pixels. By default the model's own.
        out: The folder to write. By default ``runs/<name>-localise``.
        say: Called with a line for every score.

    Returns:
        The path of localise.json.

    Raises:
        UserError: If the model, the data set or the task does not exist, or no depth fits the
            model.
    """

    def open_model(locality: Locality | None) -> Subject:
        return open_subject(
            target, weights=weights, pretrained=pretrained, random_init=random_init,
            image_size=image_size, device=settings.device, locality=locality,
        )  # fmt: skip

    accuracy_images = _open_accuracy_images(settings)
    plain = open_model(None)
    num_layers = plain.extractor.num_layers
    wanted = list(candidates(settings, num_layers))
    if not wanted:
        raise UserError(
            f"the model has only {num_layers} layers, fewer than every depth to try; give smaller "
            "--depths"
        )
    searched = Settings(
        tasks=settings.task, data=settings.data, num_train=settings.num_memory,
        held_out=settings.num_held_out, options={}, controls=False, cache=settings.cache,
        data_root=settings.data_root, device=settings.device, batch_size=settings.batch_size,
    )  # fmt: skip
    scorer = Scorer(open_model, searched, say)
    say(f"{plain.name}: {settings.num_memory} and {settings.num_held_out} training images")
    tried = scorer.score_plain()
    tried += [scorer.score(locality, "candidate") for locality in wanted]
    best = max((each for each in tried if each.role == "candidate"), key=lambda each: each.value)
    chosen = best.locality
    assert chosen is not None
    say(f"chosen on training images: {chosen}")
    controls = [scorer.score(locality, "control") for locality in controls_of(chosen)]
    sinks = [scorer.score(locality, "control") for locality in sinks_of(chosen)]
    tried += [*controls, *sinks]
    on_val = Scorer(
        open_model,
        replace(searched, held_out=None, num_train=settings.num_train, num_val=settings.num_val),
        say,
    )
    results: list[Scored] = []
    if settings.val:
        say("val:")
        results = [*on_val.score_plain(), on_val.score(chosen, "chosen")]
        for each in (*controls, max(sinks, key=lambda each: each.value)):
            assert each.locality is not None
            results.append(on_val.score(each.locality, "control"))
    say("layers of the plain model, training images:")
    layers = scorer.score_plain("all")
    earlier = [each for each in layers if each.role == "control"]
    tried += earlier
    if settings.val and earlier:
        number = max(earlier, key=lambda each: each.value).outcome.layer
        say("val:")
        results += on_val.score_plain(f"{number},{num_layers}")[:1]
    images = _some_images(plain, settings)
    local = open_model(chosen)
    remarks = [prefix_shares(local, images).text()]
    contents = {
        "schema_version": SCHEMA_VERSION,
        "model": plain.name,
        "identity": plain.identity,
        "task": best.outcome.task,
        "method": best.outcome.method,
        "number": NUMBER,
        "searched": _images_of(best.outcome, "held-out training images"),
        "tried": [each.contents() for each in tried],
        "chosen": str(chosen),
        "layers": _layers(plain, layers, images),
        "scored": _images_of(results[0].outcome, "val") if results else None,
        "results": [each.contents() for each in results],
        "accuracy": _accuracy(plain, local, accuracy_images, settings) if accuracy_images else None,
        "remarks": remarks,
        "provenance": provenance(settings.device),
    }
    folder = out or default_folder(f"{plain.name.removesuffix(UNTRAINED)}-localise")
    folder.mkdir(parents=True, exist_ok=True)
    return LOCALISE_FILE.write(folder, contents)


def _images_of(outcome: TaskOutcome, split: str) -> dict[str, Any]:
    return {
        "data": outcome.data["name"],
        "split": split,
        "num_train": outcome.data["num_train"],
        "num_scored": outcome.data["num_val"],
    }


def _some_images(subject: Subject, settings: SearchSettings) -> torch.Tensor:
    """Return training images, preprocessed for the model and resized to its size."""
    split = open_masks(settings.data, settings.data_root, "train")
    chosen = split.part(spread(len(split), min(NUM_MEASURED, len(split))), "train")
    steps = Preprocessing(
        subject.statistics, subject.size, None, keep_ratio=False, interpolation="bilinear",
        mean=subject.mean, std=subject.std,
    )  # fmt: skip
    batches = image_batches(chosen, Preparation(steps), settings.batch_size, settings.device)
    return torch.cat(list(batches))


def _layers(
    subject: Subject, layers: Sequence[Scored], images: torch.Tensor
) -> list[dict[str, Any]]:
    """Return the score and the mean attention distance of each layer of the plain model."""
    distances = layer_means(subject, images, "mad")
    return [
        {
            "layer": each.outcome.layer,
            "score": interval_contents(each.outcome.numbers[NUMBER].estimate),
            "mad": distances[each.outcome.layer - 1],
        }
        for each in layers
    ]


def _open_accuracy_images(settings: SearchSettings) -> Split | None:
    """Return the images for top-1 accuracy with their classes, if there are any.

    Raises:
        UserError: If an image is not named by the number of its class.
    """
    folder = settings.accuracy_images
    if folder is None:
        return None
    names, _ = find_pictures(folder)
    others = [name for name in names if not Path(name).stem.isdecimal()]
    if others:
        raise UserError(
            f"the images in {folder} must be named by the numbers of their classes, such as "
            f"0042.jpg, but one is {others[0]}"
        )
    return open_labels(str(Path(folder).resolve()), settings.data_root, "val")


def _accuracy(
    plain: Subject, local: Subject, split: Split, settings: SearchSettings
) -> dict[str, Any]:
    """Return the top-1 accuracy of both models on images with class numbers."""
    right, local_right = (
        class_answers(subject, split, settings.batch_size, settings.device) == split.labels
        for subject in (plain, local)
    )
    return {
        "folder": split.data,
        "num_images": len(split),
        "plain": interval_contents(image_interval(weighted_mean, right)),
        "local": interval_contents(image_interval(weighted_mean, local_right)),
        "gain": interval_contents(paired_image_interval(weighted_mean, local_right, right)),
    }
