"""List what a search for locality tries: widths and depths, and the controls of the choice.

identity          each patch attends only to itself, so that patches are not mixed (MaskCLIP)
window:1          each patch attends to itself and to prefix tokens: the limit of width 0
shifted           the same Gaussian around a wrong patch: as narrow, but not local
sinks             patches that attract much attention are hidden, without any locality
keep-share        local like the choice, but prefix tokens keep their share of attention
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from nearsight.measure.localise import IDENTITY, Locality

WIDTHS = (0.5, 0.7, 1.0, 1.5, 2.0, 3.0)  # in patches
DEPTHS = (1, 2, 3, 4, 6)  # numbers of last layers
SINKS = (2.0, 4.0, 8.0)  # a patch that gets this many times an even share is a sink
SIDE = 3  # of windows, in patches
NUM_MEMORY, NUM_HELD_OUT = 366, 207
BATCH_SIZE = 32


@dataclass(frozen=True, kw_only=True)
class SearchSettings:
    """Settings of a search: what to try, and on which images.

    Args:
        data: The name or path of a data set with masks.
        task: The task to score by: hummingbird or segmentation.
        widths: Widths of the Gaussian in patches.
        depths: Numbers of last layers to make local.
        num_memory: The number of images to train on during the search.
        num_held_out: The number of other training images to score during the search.
        val: Whether to score the chosen setting and the controls on the validation images.
        num_train: The number of images to train on before the validation images are scored; None
            for all.
        num_val: The number of validation images to score; None for all.
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
    """Return those controls of a locality that have no setting to choose."""
    layers = chosen.layers
    return [
        Locality(IDENTITY, layers=layers),
        Locality("window", 1, layers),
        Locality("shifted", chosen.width, layers),
        replace(chosen, keep_share=True),
    ]


def sinks_of(chosen: Locality) -> list[Locality]:
    """Return the controls that hide sinks, one for each threshold to try."""
    return [Locality("sinks", times, chosen.layers) for times in SINKS]
