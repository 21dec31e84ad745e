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
        (
            Method("logreg", options=logreg.OPTIONS, seconds=logreg.logreg_seconds),
            logreg.run_logreg,
        ),
        *(
            (
                Method(
                    name, place, options=trained_heads.OPTIONS, mirrored=True,
                    seconds=trained_heads.trained_head_seconds,
                ),
                trained_heads.run_trained_head,
            )
            for name, place in (
                ("locat", "block"),
                ("dinov2", "norm"),
                ("dinov3", "norm"),
                ("neco", "norm"),
            )
        ),
        (
            Method("capi-knn", "norm", seconds=tile_votes.capi_knn_seconds),
            tile_votes.run_capi_knn,
        ),
        (
            Method("capi-logreg", "norm", options=logreg.OPTIONS, seconds=logreg.logreg_seconds),
            logreg.run_capi_logreg,
        ),
        (
            Method(
                "hummingbird", options=hummingbird.OPTIONS, seconds=hummingbird.hummingbird_seconds
            ),
            hummingbird.run_hummingbird,
        ),
        (
            Method(
                "open-hummingbird", "norm", "open-hummingbird", hummingbird.OPTIONS,
                seconds=hummingbird.hummingbird_seconds,
            ),
            hummingbird.run_open_hummingbird,
        ),
    )
}  # fmt: skip


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
