"""test-answers.npy: which test images the best weights classify correctly, one bit per image.

With it, effects on accuracy can be compared image by image. Older runs do not have the file.
"""

from __future__ import annotations

import io
import tokenize
from pathlib import Path

import numpy as np
from jaxtyping import Bool

from nearsight.core import UserError, write_bytes

ANSWERS = "test-answers.npy"


def write_answers(folder: Path, correct: Bool[np.ndarray, " image"]) -> Path:
    """Write down which test images are classified correctly, in the order of the data set."""
    buffer = io.BytesIO()
    np.save(buffer, np.packbits(correct))
    write_bytes(folder / ANSWERS, buffer.getvalue())
    return folder / ANSWERS


def read_answers(folder: Path, num_test: int) -> Bool[np.ndarray, " image"] | None:
    """Return which test images are classified correctly, or None if the run has no such file.

    Raises:
        UserError: If the file is damaged or has another number of images.
    """
    path = folder / ANSWERS
    if not path.is_file():
        return None
    try:
        buffer = io.BytesIO(path.read_bytes())
        bits = np.load(buffer, allow_pickle=False)
        if buffer.read(1):
            raise ValueError("it has bytes after its numbers")
        if bits.dtype != np.uint8 or bits.shape != (-(-num_test // 8),):
            raise ValueError(f"it has {bits.size} bytes for {num_test} images")
    except (ValueError, EOFError, SyntaxError, tokenize.TokenError) as error:
        raise UserError(
            f"{path} is damaged ({error}); delete it, and effects on accuracy are compared over "
            "seeds alone, or train the run again"
        ) from None
    return np.unpackbits(bits, count=num_test).astype(bool)
