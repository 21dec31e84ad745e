"""Show the attention of models in a notebook, or write it as a page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import nearsight
from nearsight.core import UserError, write_bytes
from nearsight.explore.document import document_html, iframe_html
from nearsight.explore.head_numbers import METRICS
from nearsight.explore.shown_model import NUM_SHOWN, ShownModel, subject_of_model
from nearsight.measure.catalogue import NAMING, RUN_NUMBERS, metric

if TYPE_CHECKING:
    from torch import Tensor, nn

SCHEMA_VERSION = 1
NOTEBOOK_HEIGHT = 860  # pixels


@dataclass(frozen=True, repr=False)
class Exploration:
    """The contents of the page: models with their attention, and tables of runs and studies.

    A notebook shows the page if this is the last value of a cell. ``write`` saves it as a file.
    """

    title: str
    subjects: tuple[ShownModel, ...] = ()
    runs: tuple[dict[str, Any], ...] = ()
    studies: tuple[dict[str, Any], ...] = field(default=())

    def __repr__(self) -> str:
        return f"Exploration of {self.title}; a notebook shows it, .write('look.html') saves it"

    def contents(self) -> dict[str, Any]:
        """Return the data of the page, which it receives as JSON."""
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
        """Write the page to a file and return its path.

        Raises:
            UserError: If the file cannot be written.
        """
        path = Path(out)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_bytes(path, self.html().encode())
        except OSError as error:
            raise UserError(f"cannot write the page to {path}: {error.strerror}") from error
        return path

    def frame(self, height: int = NOTEBOOK_HEIGHT) -> str:
        """Return the page in a sandboxed frame that another page can embed."""
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
    """Explore where the heads of a model attend, in a notebook or as a page.

    Args:
        model: A Vision Transformer, or several to show side by side: a list, or a dictionary that
            names them.
        images: A normalised tensor [n, 3, h, w]; or a folder of images, or a list of image files
            or PIL images, which go through each model's own preprocessing.
        names: The names of the images. By default their file names or numbers.
        num_shown: Store the attention of the first ``num_shown`` images in the page. The numbers of
            the heads are means over all images.
        mean: The mean that was subtracted from the images of a tensor. It is added again to show
            them.
        std: The standard deviation by which the images of a tensor were divided.

    Returns:
        An ``Exploration``. A notebook shows it if it is the last value of a cell, and
        ``.write("look.html")`` saves it as one file.

    Raises:
        UserError: If a model has no attention between patches, or does not accept the images.

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
            "the explorer shows the attention itself, which a profile does not contain; pass the "
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
        raise UserError("the list of models is empty; pass at least one model")
    kinds = [type(each).__name__ for each in models]
    if len(set(kinds)) == len(kinds):
        return dict(zip(kinds, models))
    return {f"{kind} {number}": each for number, (kind, each) in enumerate(zip(kinds, models), 1)}
