"""test-answers.npy: which test images a run's best weights answer rightly, one bit per image.

It lets effects on accuracy be compared image by image. Runs from before it have none.
"""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
from jaxtyping import Bool

from nearsight.core import UserError, write_bytes

ANSWERS = "test-answers.npy"


def write_answers(folder: Path, correct: Bool[np.ndarray, " image"]) -> Path:
    """Write whether each test image, in the order of the data set, was answered rightly."""
    buffer = io.BytesIO()
    np.save(buffer, np.packbits(correct))
    write_bytes(folder / ANSWERS, buffer.getvalue())
    return folder / ANSWERS


def read_answers(folder: Path, num_test: int) -> Bool[np.ndarray, " image"] | None:
    """Return whether each of the test images was answered rightly; None if the run has no file.

    Raises:
        UserError: The file is damaged or of another number of images.
    """
    path = folder / ANSWERS
    if not path.is_file():
        return None
    try:
        bits = np.load(path, allow_pickle=False)
        if bits.dtype != np.uint8 or bits.shape != (-(-num_test // 8),):
            raise ValueError(f"{bits.size} bytes for {num_test} images")
    except (ValueError, EOFError) as error:
        raise UserError(
            f"{path} is damaged ({error}); delete it, and effects on accuracy are compared over "
            "seeds alone"
        ) from None
    return np.unpackbits(bits, count=num_test).astype(bool)
