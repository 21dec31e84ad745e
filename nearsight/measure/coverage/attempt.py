"""Try one model: build it with random weights, measure it, and describe the result in a row."""

from __future__ import annotations

import re
import time
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from nearsight.core import UserError
from nearsight.measure.coverage.building import builds
from nearsight.measure.profile import measure_model

UNCLEAR = "where its tokens sit is not clear"
GAP = re.compile(r"the smallest gap is ([\d.]+) cells")
NEEDS_MORE = "required positional argument"  # in the error of a forward that got only images
ENOUGH_SECONDS = 60.0  # after this time, no larger image is tried
MOST_REASON = 300  # how many characters of an error are kept


@dataclass(frozen=True)
class ModelRow:
    """The result for one model; ``outcome`` is "measured", "refused", "not built" or "crashed"."""

    model: str
    outcome: str
    image_side: int | None = None
    num_layers: int = 0
    proof_error: float | None = None
    gap: float | None = None  # smallest gap in the layers whose positions were measured, in cells
    reason: str = ""  # why the model was refused, crashed, or has layers that were left out
    seconds: float = 0.0
    num_unclear: int = 0  # layers left out because their positions are not clear

    def contents(self) -> dict[str, Any]:
        """Return the row as JSON contents."""
        return asdict(self)


def try_model(name: str) -> ModelRow:
    """Measure a model with random weights on two images of noise.

    The smallest image that the model accepts is used, or a larger one if the positions of tokens
    are clear in more of its layers then. Nothing is downloaded.

    Args:
        name: Name of the model, as ``covered_models`` gives it.
    """
    torch.manual_seed(0)
    began = time.perf_counter()
    best: ModelRow | None = None
    unbuilt, unfit = "", ""
    for side, model in builds(name):
        if isinstance(model, Exception):
            unbuilt = _sentence(model)
            continue
        images = torch.randn(2, 3, side, side)
        try:
            with torch.no_grad():
                model.eval()(images)
        except Exception as error:
            unfit = _sentence(error)
            if NEEDS_MORE in unfit:
                break
            continue
        row = measured_row(name, model, images)
        if best is None or (row.outcome == "measured" and row.num_unclear < best.num_unclear):
            best = row
        if not best.num_unclear or time.perf_counter() - began > ENOUGH_SECONDS:
            break
    if best is None and unfit:
        needs_more = NEEDS_MORE in unfit
        begin = (
            "it needs other inputs than images"
            if needs_more
            else "as built here, it fails on images"
        )
        best = ModelRow(name, "refused", reason=f"{begin} [n, 3, side, side]: {unfit}")
    best = best or ModelRow(name, "not built", reason=unbuilt)
    return replace(best, seconds=time.perf_counter() - began)


def measured_row(name: str, model: nn.Module, images: Tensor) -> ModelRow:
    """Measure a model on some images and return the result."""
    side = images.shape[-1]
    try:
        profile = measure_model(model, images, metrics=("mad",))
    except UserError as error:
        unclear = int(UNCLEAR in str(error))
        return ModelRow(name, "refused", side, reason=str(error), num_unclear=unclear)
    except Exception as error:
        return ModelRow(name, "crashed", side, reason=_sentence(error))
    gaps = [float(x.note.split("gap ")[1].split(" ")[0]) for x in profile.layers
            if x.note and "gap " in x.note]  # fmt: skip
    reasons = [reason for _, reason in profile.skipped]
    return ModelRow(
        name,
        "measured",
        side,
        len(profile.layers),
        max(x.proof_error for x in profile.layers),
        min(gaps, default=None),
        counted_reasons(reasons),
        num_unclear=sum(UNCLEAR in x for x in reasons),
    )


def counted_reasons(reasons: list[str]) -> str:
    """Return each reason once, with the number of layers it applies to and their largest gap.

    >>> counted_reasons(["it pools", "it pools"])
    '2 layers left out: it pools'
    """
    layers_by_reason: dict[str, list[str]] = {}
    for reason in reasons:
        layers_by_reason.setdefault(GAP.sub("GAP", reason), []).append(reason)
    sentences = []
    for text, each in layers_by_reason.items():
        gaps = [float(x) for reason in each for x in GAP.findall(reason)]
        if gaps:
            text = text.replace("GAP", f"the smallest gap is at most {max(gaps):.2f} cells")
        sentences.append(f"{len(each)} layer{'s' * (len(each) > 1)} left out: {text}")
    return "; ".join(sentences)


def _sentence(error: Exception) -> str:
    """Return an error in one line."""
    return f"{type(error).__name__}: {' '.join(str(error).split())}"[:MOST_REASON]
