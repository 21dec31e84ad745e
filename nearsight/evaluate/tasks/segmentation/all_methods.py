"""List the methods of segmentation. To add one, write a function and add a line here."""

from __future__ import annotations

from collections.abc import Iterator

from nearsight.evaluate.tasks.segmentation import (
    hummingbird,
    logreg,
    tile_votes,
    trained_heads,
)
from nearsight.evaluate.tasks.task import Bench, Function, Method, Task, TaskNumber

METHODS: dict[str, tuple[Method, Function]] = {
    method.name: (method, function)
    for method, function in (
        (logreg.LOGREG, logreg.run_logreg),
        (trained_heads.LOCAT, trained_heads.run_trained_head),
        (trained_heads.DINOV2, trained_heads.run_trained_head),
        (trained_heads.DINOV3, trained_heads.run_trained_head),
        (trained_heads.NECO, trained_heads.run_trained_head),
        (tile_votes.CAPI_KNN, tile_votes.run_capi_knn),
        (logreg.CAPI_LOGREG, logreg.run_capi_logreg),
        (hummingbird.HUMMINGBIRD, hummingbird.run_hummingbird),
        (hummingbird.OPEN_HUMMINGBIRD, hummingbird.run_open_hummingbird),
    )
}


def run_segmentation(bench: Bench) -> Iterator[TaskNumber]:
    """Yield the numbers of the bench's method."""
    return METHODS[bench.method][1](bench)


SEGMENTATION = Task(
    "segmentation",
    "masks",
    run_segmentation,
    [method for method, _ in METHODS.values()],
    passes=trained_heads.model_passes,
)
