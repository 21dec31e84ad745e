"""What a search for locality tries: widths and depths, and the controls of the choice.

identity          each patch attends to itself only: no mixing of patches at all (MaskCLIP)
window:1          the limit of width 0: each patch attends to itself and to prefix tokens
shifted           the same Gaussian around a wrong patch: as narrow, but not local
sinks             patches that attract much attention are hidden: no locality
keep-share        local, but prefix tokens get the share that they had
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from nearsight.measure.localise import IDENTITY, Locality

WIDTHS = (0.5, 0.7, 1.0, 1.5, 2.0, 3.0)
DEPTHS = (1, 2, 3, 4, 6)  # last layers
SINKS = (2.0, 4.0, 8.0)  # times an even share
SIDE = 3
NUM_MEMORY, NUM_HELD_OUT = 366, 207
BATCH_SIZE = 32


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


def sinks_of(chosen: Locality) -> list[Locality]:
    """Return the thresholds of hidden sinks to try as controls of a locality."""
    return [Locality("sinks", times, chosen.layers) for times in SINKS]
