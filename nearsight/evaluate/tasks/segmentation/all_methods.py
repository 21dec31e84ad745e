"""The methods of segmentation. A new one is a function and a line here."""

from __future__ import annotations

from collections.abc import Iterator

from nearsight.evaluate.tasks.segmentation import hummingbird, logreg
from nearsight.evaluate.tasks.task import Bench, Function, Method, Task, TaskNumber

METHODS: dict[str, tuple[Method, Function]] = {
    method.name: (method, function)
    for method, function in (
        (Method("logreg", options=logreg.OPTIONS), logreg.run_logreg),
        (Method("capi-logreg", "norm", options=logreg.OPTIONS), logreg.run_capi_logreg),
        (Method("hummingbird", options=hummingbird.OPTIONS), hummingbird.run_hummingbird),
        (
            Method("open-hummingbird", "norm", "open-hummingbird", hummingbird.OPTIONS),
            hummingbird.run_open_hummingbird,
        ),
    )
}


def run_segmentation(bench: Bench) -> Iterator[TaskNumber]:
    """Yield the numbers of the bench's method."""
    return METHODS[bench.method][1](bench)


SEGMENTATION = Task(
    "segmentation", "masks", run_segmentation, [method for method, _ in METHODS.values()]
)
