"""Is locality used, or decorative? Heads are changed one by one; the accuracy lost says.

causal.json in a run's folder: for every head, for all heads of a layer together and for all heads
of the model, the accuracy lost on the same test images when their patches look only inside a
window, only outside of it, or where they look on average (intervention.py).
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
from nearsight.evaluate.intervention import (
    Intervention,
    LayerMean,
    MeanAttention,
    Rule,
    averaged,
    looking,
)
from nearsight.measure.capture import (
    AttentionCall,
    AttentionCapture,
    evaluating,
    image_batches,
    refuse_unseen,
)
from nearsight.measure.folders import IMAGE_SEED, chosen_images, finished_run
from nearsight.measure.profile import unread_layers
from nearsight.runs import CAUSAL, SCHEMA_VERSION, WEIGHTS, Stage, file_hash, provenance
from nearsight.runs.records import CAUSAL_FILE
from nearsight.stats import accuracy_loss, holm

NUM_IMAGES = 1000  # or all there are
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

    ``heads`` are (layer, head) counted from 0; None: every head, every layer's heads together, and
    all heads together. ``window`` is the side of the window in patches. The test images are chosen
    as ``measure_run`` chooses them, 1,000 or all there are. ``progress`` is told (passes over the
    images done, passes in all).
    """
    path = Path(path)
    run, dataset = finished_run(path, device, data_root)
    num_test = len(dataset.test.images)
    wanted = min(NUM_IMAGES, num_test) if num_images is None else num_images
    chosen = chosen_images(num_test, wanted)
    labels = np.asarray(dataset.test.labels)[chosen]

    def batches() -> Iterator[Tensor]:
        for start in range(0, wanted, batch_size):
            images = dataset.test.images[chosen[start : start + batch_size]]
            yield run.transform(torch.from_numpy(images)).to(device)

    began = time.perf_counter()
    mean = MeanAttention()
    before = answers(run.model, batches(), mean) == labels
    layers = mean.layers(wanted)
    rules, remarks = _rules(layers, window)
    unread = []
    if heads is None:
        known = unread_layers(run.model, next(batches())[:1])
        unread = [number for number, is_unread in enumerate(known or []) if is_unread]
    remarks += [
        f"Layer {layer + 1} is left out: what its patches see does not reach the answer."
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
                progress(1 + len(found), 1 + len(groups) * len(rules))
    for entry, p in zip(found, holm([entry["p"] for entry in found])):
        entry["p_holm"] = p
    contents = {
        "schema_version": SCHEMA_VERSION,
        "window": window,
        "num_images": wanted,
        "num_available": num_test,
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
    """What the model says to images while its attention is seen and changed."""
    found = []
    with evaluating(model) as inner, AttentionCapture(inner, consumer, change) as capture:
        for batch in image_batches(images, inner):
            found.append(inner(batch).cpu())
            refuse_unseen(capture.unseen)
    return torch.cat(found)


def answers(model: nn.Module, images: Iterable[Tensor], *seen: Any, **changed: Any) -> np.ndarray:
    """The class that the model chooses for every image; the rest as ``logits_seen`` takes it."""
    return logits_seen(model, images, *seen, **changed).argmax(-1).numpy()


def _rules(layers: Mapping[str, LayerMean], window: int) -> tuple[dict[str, Rule], list[str]]:
    """The changes by name, and what is to be said of those that are left out."""
    rules = {"inside": looking("inside", window, layers)}
    full = [x.grid for x in layers.values() if bool(x.grid.window(window).all(-1).any())]
    remarks = []
    if full:
        remarks.append(
            f"Outside is left out: a window of {window}x{window} patches on a grid of {full[0]} "
            "leaves some patches nothing outside of it."
        )
    else:
        rules["outside"] = looking("outside", window, layers)
    return rules | {"mean": averaged(layers)}, remarks


@dataclass(frozen=True)
class HeadGroup:
    """Some heads and what they are called."""

    name: str  # "2.1": head 1 of layer 2, "layer 2", "all heads"; counted from 1
    heads: tuple[Head, ...]

    def by_name(self, layers: Sequence[str]) -> dict[str, list[int]]:
        """The numbers of the heads by the names of their layers."""
        found: dict[str, list[int]] = {}
        for layer, head in self.heads:
            found.setdefault(layers[layer], []).append(head)
        return found


def head_groups(
    num_heads: Sequence[int], heads: Sequence[Head] | None = None, left_out: Sequence[int] = ()
) -> list[HeadGroup]:
    """One group for each of ``heads``, of layers with ``num_heads`` heads.

    None: each head alone, those of each layer, and all together, but of the layers ``left_out``.

    >>> [group.name for group in head_groups([2, 1, 3], left_out=[2])]
    ['1.1', '1.2', '2.1', 'layer 1', 'layer 2', 'all heads']
    """
    if heads is not None:
        for layer, head in heads:
            if not (0 <= layer < len(num_heads) and 0 <= head < num_heads[layer]):
                raise UserError(
                    "expected a head as LAYER.HEAD, counted from 1, of layers with "
                    f"{', '.join(map(str, num_heads))} heads, got {layer + 1}.{head + 1}"
                )
        return [_alone(head) for head in dict.fromkeys(heads)]
    layers = [layer for layer in range(len(num_heads)) if layer not in left_out]
    if not layers:
        raise UserError("expected a layer whose patches have a say in the answer, found none")
    every = tuple((layer, head) for layer in layers for head in range(num_heads[layer]))
    together = [
        HeadGroup(f"layer {layer + 1}", tuple(head for head in every if head[0] == layer))
        for layer in layers
    ]
    return [*map(_alone, every), *together, HeadGroup("all heads", every)]


def _alone(head: Head) -> HeadGroup:
    return HeadGroup(f"{head[0] + 1}.{head[1] + 1}", (head,))


CAUSAL_STAGE = Stage("causal", CAUSAL, causal_run)
