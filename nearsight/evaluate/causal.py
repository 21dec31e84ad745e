"""Test whether a model uses local attention: change heads and measure the loss of accuracy.

The results go to causal.json in the run's folder. For each head, for all heads of each layer and
for all heads of the model, the file has the accuracy lost on the same test images when patches
attend only inside a window, only outside of it, or where they attend on average (intervention.py).
The average is taken over training images, so that a test image has no influence on the attention
that it is tested with.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from nearsight.core import UserError
from nearsight.data.sets import ImageSet
from nearsight.evaluate.intervention import (
    Intervention,
    LayerMean,
    MeanAttention,
    Rule,
    mean_map_rule,
    window_rule,
)
from nearsight.measure.capture import (
    AttentionCall,
    AttentionCapture,
    evaluation_mode,
    image_batches,
    refuse_unseen,
)
from nearsight.measure.folders import IMAGE_SEED, chosen_images, finished_run
from nearsight.measure.profile import unread_layers
from nearsight.runs import CAUSAL, SCHEMA_VERSION, WEIGHTS, Stage, file_hash, provenance
from nearsight.runs.records import CAUSAL_FILE
from nearsight.stats import accuracy_loss, holm

NUM_IMAGES = 1000  # or all test images, if there are fewer
WINDOW = 3
Head = tuple[int, int]  # layer and head, counted from 0


def causal_run(
    path: Path,
    heads: Sequence[Head] | None = None,
    window: int = WINDOW,
    num_images: int | None = None,
    device: str = "cpu",
    data_root: Path | None = None,
    batch_size: int = 64,
    progress: Callable[[int, int], None] | None = None,
) -> Path:
    """Change the attention of a finished run's heads and write ``causal.json`` into its folder.

    Args:
        path: The run folder.
        heads: The heads to change, as (layer, head) counted from 0. None means each head alone, all
            heads of each layer, and all heads of the model.
        window: The side of the window in patches.
        num_images: The number of test images, which are chosen as in ``measure_run``. By default
            1,000, or all if there are fewer.
        device: The device on which the model runs.
        data_root: The folder of data sets.
        batch_size: The number of images per forward pass.
        progress: Called with the number of finished passes over the images and of all passes.

    Returns:
        The path of causal.json.

    Raises:
        UserError: If the run is not finished, there is no such head, or the attention of a layer
            cannot be changed head by head.
    """
    path = Path(path)
    run, dataset = finished_run(path, device, data_root)
    num_test = len(dataset.test.images)
    wanted = min(NUM_IMAGES, num_test) if num_images is None else num_images
    chosen = chosen_images(num_test, wanted)
    labels = np.asarray(dataset.test.labels)[chosen]

    num_train = len(dataset.train.images)
    num_mean = min(wanted, num_train)

    def batches(of: ImageSet = dataset.test, places: np.ndarray = chosen) -> Iterator[Tensor]:
        for start in range(0, len(places), batch_size):
            images = of.images[places[start : start + batch_size]]
            yield run.transform(torch.from_numpy(images)).to(device)

    began = time.perf_counter()
    seen, elsewhere = MeanAttention(), MeanAttention()
    before = answers(run.model, batches(), seen) == labels
    layers = seen.layers(wanted)
    answers(run.model, batches(dataset.train, chosen_images(num_train, num_mean)), elsewhere)
    rules, remarks = _rules(layers, elsewhere.layers(num_mean), window)
    unread = []
    if heads is None:
        known = unread_layers(run.model, next(batches())[:1])
        unread = [number for number, is_unread in enumerate(known or []) if is_unread]
    remarks += [
        f"Layer {layer + 1} is left out, because the attention of its patches does not affect the "
        "answer."
        for layer in unread
    ]
    groups = head_groups([len(layer.weights) for layer in layers.values()], heads, unread)
    found = []
    for group in groups:
        for kind, rule in rules.items():
            change = Intervention(group.by_name(list(layers)), rule)
            after = answers(run.model, batches(), change=change) == labels
            lost = asdict(accuracy_loss(before, after))
            found.append({"heads": group.name, "change": kind, **lost})
            if progress:
                progress(2 + len(found), 2 + len(groups) * len(rules))
    for entry, p in zip(found, holm([entry["p"] for entry in found])):
        entry["p_holm"] = p
    contents = {
        "schema_version": SCHEMA_VERSION,
        "window": window,
        "num_images": wanted,
        "num_available": num_test,
        "mean_map": {"split": "train", "num_images": num_mean},
        "image_seed": IMAGE_SEED,
        "split": "test",
        "accuracy": float(before.mean()),
        "layers": [
            {
                "layer": number,
                "name": name,
                "grid": [layer.grid.rows, layer.grid.cols],
                "inside": layer.inside(window).tolist(),
                "uniform_inside": float(layer.grid.window(window).double().mean()),
            }
            for number, (name, layer) in enumerate(layers.items(), 1)
        ],
        "lost": found,
        "remarks": remarks,
        "data": {"name": dataset.name, "hash": dataset.hash},
        "weights": {"file": WEIGHTS, "sha256": file_hash(path / WEIGHTS)},
        "seconds": time.perf_counter() - began,
        "provenance": provenance(device),
    }
    return CAUSAL_FILE.write(path, contents)


def logits_seen(
    model: nn.Module,
    images: Iterable[Tensor],
    consumer: Callable[[AttentionCall], None] = lambda call: None,
    change: Intervention | None = None,
) -> Float[Tensor, "image label"]:
    """Return the logits of images.

    Args:
        model: The model.
        images: Batches of images.
        consumer: Called with the attention of every layer.
        change: Changes the attention of some heads first.
    """
    found = []
    with evaluation_mode(model) as inner, AttentionCapture(inner, consumer, change) as capture:
        for batch in image_batches(images, inner):
            found.append(inner(batch).cpu())
            refuse_unseen(capture.unseen)
    return torch.cat(found)


def answers(model: nn.Module, images: Iterable[Tensor], *seen: Any, **changed: Any) -> np.ndarray:
    """Return the predicted class of each image. Other arguments are those of ``logits_seen``."""
    return logits_seen(model, images, *seen, **changed).argmax(-1).numpy()


def _rules(
    layers: Mapping[str, LayerMean], elsewhere: Mapping[str, LayerMean], window: int
) -> tuple[dict[str, Rule], list[str]]:
    """Return the changes by name, and remarks about changes that are left out.

    Args:
        layers: The mean attention of every layer on the tested images.
        elsewhere: The mean attention on other images.
        window: The side of the window in patches.
    """
    rules = {"inside": window_rule("inside", window, layers)}
    full = [x.grid for x in layers.values() if bool(x.grid.window(window).all(-1).any())]
    remarks = []
    if full:
        remarks.append(
            f"The change outside is left out: on a grid of {full[0]}, a window of "
            f"{window}x{window} patches leaves some patches nothing to attend to."
        )
    else:
        rules["outside"] = window_rule("outside", window, layers)
    return rules | {"mean": mean_map_rule(elsewhere)}, remarks


@dataclass(frozen=True)
class HeadGroup:
    """A set of heads that are changed together, and its name."""

    name: str  # "2.1": head 1 of layer 2, "layer 2", "all heads"; counted from 1
    heads: tuple[Head, ...]

    def by_name(self, layers: Sequence[str]) -> dict[str, list[int]]:
        """Return the numbers of the heads by the names of their layers."""
        found: dict[str, list[int]] = {}
        for layer, head in self.heads:
            found.setdefault(layers[layer], []).append(head)
        return found


def head_groups(
    num_heads: Sequence[int], heads: Sequence[Head] | None = None, left_out: Sequence[int] = ()
) -> list[HeadGroup]:
    """Return one group for each of ``heads``, in layers with ``num_heads`` heads.

    If ``heads`` is None, return each head alone, all heads of each layer, and all heads of the
    model, without the layers ``left_out``.

    >>> [group.name for group in head_groups([2, 1, 3], left_out=[2])]
    ['1.1', '1.2', '2.1', 'layer 1', 'layer 2', 'all heads']
    """
    if heads is not None:
        for layer, head in heads:
            if not (0 <= layer < len(num_heads) and 0 <= head < num_heads[layer]):
                raise UserError(
                    f"there is no head {layer + 1}.{head + 1} (LAYER.HEAD, counted from 1); the "
                    f"layers have {', '.join(map(str, num_heads))} heads"
                )
        return [_alone(head) for head in dict.fromkeys(heads)]
    layers = [layer for layer in range(len(num_heads)) if layer not in left_out]
    if not layers:
        raise UserError(
            "the attention of patches never affects the answer of this model, so there is nothing "
            "to test"
        )
    every = tuple((layer, head) for layer in layers for head in range(num_heads[layer]))
    together = [
        HeadGroup(f"layer {layer + 1}", tuple(head for head in every if head[0] == layer))
        for layer in layers
    ]
    return [*map(_alone, every), *together, HeadGroup("all heads", every)]


def _alone(head: Head) -> HeadGroup:
    return HeadGroup(f"{head[0] + 1}.{head[1] + 1}", (head,))


CAUSAL_STAGE = Stage("causal", CAUSAL, causal_run)
