"""Find the locality that helps a model most on training images, and score it on val.

Width and layers are chosen by scoring held-out training images. Only the chosen setting, the plain
model and the controls are then scored on val, with differences paired over images:

identity          each patch attends to itself only: no mixing of patches at all (MaskCLIP)
window:1          the limit of width 0: each patch attends to itself and to prefix tokens
shifted           the same Gaussian around a wrong patch: as narrow, but not local
sinks             patches that attract much attention are hidden: no locality
keep-share        local, but prefix tokens get the share that they had
an earlier layer  features of the best other layer of the plain model

If a control has a setting (the threshold of sinks, the number of the earlier layer), it is chosen
on the same training images, so that each control is as strong as it can be.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from nearsight.core import UserError
from nearsight.data.input import Preprocessing, find_pictures, read_picture
from nearsight.evaluate.attention_summary import layer_means, prefix_shares
from nearsight.evaluate.bench_runner import evaluate_subject
from nearsight.evaluate.benches import Settings
from nearsight.evaluate.features import (
    Preparation,
    Subject,
    image_batches,
    open_masks,
    open_subject,
    spread,
)
from nearsight.evaluate.outcome import TaskOutcome
from nearsight.measure.folders import default_folder
from nearsight.measure.localise import IDENTITY, Locality
from nearsight.runs import SCHEMA_VERSION, provenance
from nearsight.runs.records import LOCALISE_FILE
from nearsight.stats import Estimate, image_interval, paired_image_interval, weighted_mean

WIDTHS = (0.5, 0.7, 1.0, 1.5, 2.0, 3.0)
DEPTHS = (1, 2, 3, 4, 6)  # last layers
SINKS = (2.0, 4.0, 8.0)  # times an even share
SIDE = 3
NUM_MEMORY, NUM_HELD_OUT = 366, 207
NUM_MEASURED = 64  # images for the distance of each layer
BATCH_SIZE = 32
NUMBER = "mIoU"
Say = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class SearchSettings:
    """Settings of a search: what to try, and on which images.

    Args:
        data: The name or path of a data set with masks.
        task: A method of segmentation.
        widths: Widths of the Gaussian in patches.
        depths: Numbers of last layers to make local.
        num_memory: The number of images to train on during the search.
        num_held_out: The number of other training images to score during the search.
        val: Whether to score the chosen setting and the controls on val.
        num_train: The number of images to train on before scoring val; None for all.
        num_val: The number of scored images of val; None for all.
        accuracy_images: Also measure accuracy on the images of this folder, whose file names are
            the numbers of their classes.
        data_root: The folder of data sets.
        cache: The folder of feature caches.
        device: The device on which the model runs.
        batch_size: The number of images per forward pass.
    """

    data: str = "voc2012"
    task: str = "hummingbird"
    widths: Sequence[float] = WIDTHS
    depths: Sequence[int] = DEPTHS
    num_memory: int = NUM_MEMORY
    num_held_out: int = NUM_HELD_OUT
    val: bool = True
    num_train: int | None = None
    num_val: int | None = None
    accuracy_images: Path | None = None
    data_root: Path | None = None
    cache: Path | None = None
    device: str = "cpu"
    batch_size: int = BATCH_SIZE


@dataclass(frozen=True)
class Scored:
    """The score of one model on some images."""

    name: str
    role: str
    locality: Locality | None
    outcome: TaskOutcome
    gain: Estimate | None

    @property
    def value(self) -> float:
        """The score."""
        return self.outcome.numbers[NUMBER].estimate.value

    def contents(self) -> dict[str, Any]:
        """Return the entry of localise.json."""
        return {
            "name": self.name,
            "role": self.role,
            "locality": None if self.locality is None else str(self.locality),
            "layer": self.outcome.layer,
            "score": _interval(self.outcome.numbers[NUMBER].estimate),
            "gain": None if self.gain is None else _interval(self.gain),
            "seconds": self.outcome.seconds,
        }

    def text(self) -> str:
        """Return one line with the score and the gain in points of mIoU."""
        estimate = self.outcome.numbers[NUMBER].estimate
        line = f"{self.name:<28} {NUMBER} {100 * estimate.value:5.1f}"
        if self.gain is None:
            return line
        low, high = 100 * self.gain.low, 100 * self.gain.high
        return f"{line}  {100 * self.gain.value:+5.1f} ({low:+.1f} to {high:+.1f})"


@dataclass
class Scorer:
    """Scores one model, plain or made local, on the same images."""

    open_model: Callable[[Locality | None], Subject]
    settings: Settings
    say: Say
    plain: dict[int, Scored] = field(default_factory=dict)  # by layer

    def score_plain(self, layers: str = "last") -> list[Scored]:
        """Score the plain model at some layers. Gains are relative to its last layer."""
        subject = self.open_model(None)
        found = evaluate_subject(subject, replace(self.settings, layer=layers))
        last = max(found.outcomes, key=lambda outcome: outcome.layer)
        scored = []
        for outcome in found.outcomes:
            is_last = outcome is last
            gain = None if is_last else _gain(outcome, last)
            name = "plain" if is_last else f"plain, layer {outcome.layer}"
            scored.append(Scored(name, "plain" if is_last else "control", None, outcome, gain))
            self.plain[outcome.layer] = scored[-1]
            self.say(scored[-1].text())
        return scored

    def score(self, locality: Locality, role: str) -> Scored:
        """Score the last layer of the model made local."""
        found = evaluate_subject(self.open_model(locality), self.settings)
        (outcome,) = found.outcomes
        last = self.plain[max(self.plain)].outcome
        scored = Scored(str(locality), role, locality, outcome, _gain(outcome, last))
        self.say(scored.text())
        return scored


def candidates(settings: SearchSettings, num_layers: int) -> Iterator[Locality]:
    """Yield every Gaussian and window to try on a model with ``num_layers`` layers.

    >>> found = candidates(SearchSettings(widths=(1.0,), depths=(1, 9)), num_layers=4)
    >>> [str(locality) for locality in found]
    ['gaussian:1@last1', 'window:3@last1']
    """
    for depth in settings.depths:
        if depth <= num_layers:
            for width in settings.widths:
                yield Locality(value=width, layers=f"last{depth}")
            yield Locality("window", SIDE, f"last{depth}")


def controls_of(chosen: Locality) -> list[Locality]:
    """Return the controls of a locality that have no setting of their own."""
    layers = chosen.layers
    return [
        Locality(IDENTITY, layers=layers),
        Locality("window", 1, layers),
        Locality("shifted", chosen.width, layers),
        replace(chosen, keep_share=True),
    ]


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
    """Search width and layers on training images, score the choice on val, write localise.json.

    Scores are cached, so that an interrupted search continues.

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
    """

    def open_model(locality: Locality | None) -> Subject:
        return open_subject(
            target, weights=weights, pretrained=pretrained, random_init=random_init,
            image_size=image_size, device=settings.device, locality=locality,
        )  # fmt: skip

    plain = open_model(None)
    num_layers = plain.extractor.num_layers
    wanted = list(candidates(settings, num_layers))
    if not wanted:
        raise UserError(
            f"The model has only {num_layers} layers, fewer than every depth to be tried. "
            "Give smaller --depths."
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
    sinks = [scorer.score(Locality("sinks", x, chosen.layers), "control") for x in SINKS]
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
        "accuracy": _accuracy(plain, local, settings),
        "remarks": remarks,
        "provenance": provenance(settings.device),
    }
    folder = out or default_folder(f"{plain.name}-localise")
    folder.mkdir(parents=True, exist_ok=True)
    return LOCALISE_FILE.write(folder, contents)


def _gain(outcome: TaskOutcome, plain: TaskOutcome) -> Estimate:
    return outcome.numbers[NUMBER].minus(plain.numbers[NUMBER])


def _interval(estimate: Estimate) -> dict[str, float]:
    return {"value": estimate.value, "low": estimate.low, "high": estimate.high}


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
            "score": _interval(each.outcome.numbers[NUMBER].estimate),
            "mad": distances[each.outcome.layer - 1],
        }
        for each in layers
    ]


def _accuracy(plain: Subject, local: Subject, settings: SearchSettings) -> dict[str, Any] | None:
    """Return the top-1 accuracy of both models on the folder of images with class numbers."""
    folder = settings.accuracy_images
    if folder is None:
        return None
    names, _ = find_pictures(folder)
    numbers = [Path(name).stem for name in names]
    if not all(number.isdecimal() for number in numbers):
        raise UserError(
            f"The names of the images in {folder} must be the numbers of their classes, but one is "
            f"{next(name for name, number in zip(names, numbers) if not number.isdecimal())}."
        )
    truth = np.array([int(number) for number in numbers])
    right, local_right = (
        _answers(subject, folder, names, settings) == truth for subject in (plain, local)
    )
    return {
        "folder": folder.name,
        "num_images": len(names),
        "plain": _interval(image_interval(weighted_mean, right)),
        "local": _interval(image_interval(weighted_mean, local_right)),
        "gain": _interval(paired_image_interval(weighted_mean, local_right, right)),
    }


@torch.no_grad()
def _answers(
    subject: Subject, folder: Path, names: Sequence[str], settings: SearchSettings
) -> np.ndarray:
    assert subject.classify is not None
    assert subject.model is not None
    steps, found = subject.classify, []
    first, _ = read_picture(folder, names[0], steps.untouched())
    if first.shape[1:] == subject.size:
        steps = steps.untouched()  # the images are already prepared
    for start in range(0, len(names), settings.batch_size):
        some = names[start : start + settings.batch_size]
        pixels = np.stack([read_picture(folder, name, steps)[0] for name in some])
        images = steps.normalised(torch.from_numpy(pixels).to(settings.device))
        found.append(subject.model(images).argmax(-1).cpu().numpy())
    return np.concatenate(found)
