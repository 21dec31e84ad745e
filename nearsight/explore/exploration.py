"""``explore``: look at the attention of models in a notebook, or write it as a page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import nearsight
from nearsight.core import UserError, write_bytes
from nearsight.explore.document import document_html, iframe_html
from nearsight.explore.heads import METRICS
from nearsight.explore.shown_model import NUM_SHOWN, ShownModel, subject_of_model
from nearsight.measure.catalogue import NAMING, RUN_NUMBERS, metric

if TYPE_CHECKING:
    from torch import Tensor, nn

SCHEMA_VERSION = 1
NOTEBOOK_HEIGHT = 860  # pixels


@dataclass(frozen=True)
class Exploration:
    """What the page shows: models with their attention, and tables of runs and studies.

    A notebook shows it when it is the last value of a cell; ``write`` makes a file of it.
    """

    title: str
    subjects: tuple[ShownModel, ...] = ()
    runs: tuple[dict[str, Any], ...] = ()
    studies: tuple[dict[str, Any], ...] = field(default=())

    def contents(self) -> dict[str, Any]:
        """Return what the page gets as JSON."""
        return {
            "schema_version": SCHEMA_VERSION,
            "version": nearsight.__version__,
            "title": self.title,
            "naming": asdict(NAMING),
            "metrics": {
                x.name: {"label": x.label, "axis": x.axis_label, "top": x.top or x.limits[1]}
                for x in map(metric, METRICS)
            },
            "columns": [
                {"name": x.name, "heading": x.heading, "percent": x.percent, "digits": x.digits}
                for x in RUN_NUMBERS
            ],
            "models": [subject.contents() for subject in self.subjects],
            "runs": list(self.runs),
            "studies": list(self.studies),
        }

    def html(self) -> str:
        """Return the page as one HTML document that needs no network."""
        return document_html(f"{self.title} · nearsight", self.contents())

    def write(self, out: str | Path) -> Path:
        """Write the page to a file and return its path."""
        path = Path(out)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_bytes(path, self.html().encode())
        except OSError as error:
            raise UserError(f"cannot write the page to {path}: {error.strerror}") from error
        return path

    def frame(self, height: int = NOTEBOOK_HEIGHT) -> str:
        """Return the page in a sandboxed frame, to be embedded in another page."""
        return iframe_html(self.html(), f"Attention explorer: {self.title}", height)

    def _repr_html_(self) -> str:
        return self.frame()


def explore(
    model: nn.Module | Mapping[str, nn.Module] | Sequence[nn.Module],
    images: Tensor | str | Path | Sequence[Any] = (),
    *,
    names: Sequence[str] | None = None,
    num_shown: int = NUM_SHOWN,
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
) -> Exploration:
    """Look at where the heads of a model attend; show the result in a notebook or write it.

    Args:
        model: a Vision Transformer, or several by name (or in a list), shown side by side.
        images: a tensor [n, 3, h, w] as the models take it, a folder of images, or a list of image
            files or PIL images, which go through each model's own preprocessing.
        names: what the images are called; by default their file names or numbers.
        num_shown: the page holds the attention of this many images, the first ones. The numbers of
            the heads are over all images.
        mean: subtracted from a tensor's images before the model; undone to show them.
        std: the images were divided by it; undone as well.

    Returns:
        An ``Exploration``: the last value of a notebook cell shows it, ``.write("look.html")``
        makes one file of it.

    Raises:
        UserError: where a model has no attention between patches, or the images do not fit.

    >>> import torch
    >>> from nearsight.models.load import create_model
    >>> found = explore({"untrained": create_model("mu")}, torch.rand(2, 3, 32, 32))
    >>> [subject.name for subject in found.subjects], found._repr_html_()[:7]
    (['untrained'], '<iframe')
    """
    from nearsight.explore.images import given_images
    from nearsight.measure.profile import Profile

    if isinstance(model, Profile):
        raise UserError(
            "a profile holds numbers, not the attention rows that the explorer shows; give the "
            "model and the images: nearsight.explore(model, images)"
        )
    models = _by_name(model)
    subjects = [
        subject_of_model(name, each, given_images(each, images, names, mean, std), num_shown)
        for name, each in models.items()
    ]
    return Exploration(" and ".join(models), tuple(subjects))


def _by_name(model: Any) -> dict[str, nn.Module]:
    if isinstance(model, Mapping):
        return dict(model)
    models = list(model) if isinstance(model, (list, tuple)) else [model]
    if not models:
        raise UserError("expected at least one model, got an empty list")
    kinds = [type(each).__name__ for each in models]
    if len(set(kinds)) == len(kinds):
        return dict(zip(kinds, models))
    return {f"{kind} {number}": each for number, (kind, each) in enumerate(zip(kinds, models), 1)}
