"""Read and decode an image that a browser sends, with limits on its bytes, pixels and format."""

from __future__ import annotations

import io
import warnings
from collections.abc import AsyncIterator

from PIL import Image

from nearsight.core import UserError
from nearsight.data.sets import as_rgb, open_image

MAX_BYTES = 16 * 2**20
MAX_PIXELS = 40_000_000
FORMATS = ("JPEG", "PNG", "WEBP")


class TooLarge(UserError):
    """Report that an image has more bytes or pixels than the server accepts."""


async def read_limited(chunks: AsyncIterator[bytes], declared: str | None) -> bytes:
    """Read the body of a request, and stop as soon as it is too large."""
    if declared is not None and declared.isdecimal() and int(declared) > MAX_BYTES:
        raise TooLarge(f"The image has more than {MAX_BYTES // 2**20} MB; send a smaller one.")
    content = bytearray()
    async for chunk in chunks:
        content += chunk
        if len(content) > MAX_BYTES:
            raise TooLarge(f"The image has more than {MAX_BYTES // 2**20} MB; send a smaller one.")
    return bytes(content)


def decoded_image(content: bytes) -> Image.Image:
    """Decode an image, after checking its size in pixels."""
    known = ", ".join(FORMATS)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with open_image(io.BytesIO(content), FORMATS) as opened:
                if opened.width * opened.height > MAX_PIXELS:
                    raise TooLarge(f"The image has more than {MAX_PIXELS:,} pixels.")
                return as_rgb(opened)
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        raise TooLarge(f"The image has more than {MAX_PIXELS:,} pixels.") from None
    except TooLarge:
        raise
    except Exception as problem:  # decoders raise many kinds of errors
        reason = str(problem).splitlines()[0] if str(problem) else type(problem).__name__
        raise UserError(f"The file cannot be read as a {known} image ({reason}).") from None
