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
    """An image has more bytes or pixels than the server accepts."""


async def read_limited(chunks: AsyncIterator[bytes], declared: str | None) -> bytes:
    """Read the body of a request, and stop as soon as it is too large.

    Args:
        chunks: The parts of the body.
        declared: The Content-Length header, if there is one.

    Raises:
        TooLarge: If the body has more than MAX_BYTES bytes.
    """
    if declared is not None and declared.isdecimal() and int(declared) > MAX_BYTES:
        raise TooLarge(f"the image has more than {MAX_BYTES // 2**20} MB; send a smaller one")
    content = bytearray()
    async for chunk in chunks:
        content += chunk
        if len(content) > MAX_BYTES:
            raise TooLarge(f"the image has more than {MAX_BYTES // 2**20} MB; send a smaller one")
    return bytes(content)


def decoded_image(content: bytes) -> Image.Image:
    """Check the size of an image in pixels, and decode it.

    Raises:
        UserError: If it is too large, or not an image of a known format.
    """
    known = ", ".join(FORMATS)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with open_image(io.BytesIO(content), FORMATS) as opened:
                if opened.width * opened.height > MAX_PIXELS:
                    raise TooLarge(
                        f"the image has more than {MAX_PIXELS:,} pixels; send a smaller one"
                    )
                return as_rgb(opened)
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        raise TooLarge(
            f"the image has more than {MAX_PIXELS:,} pixels; send a smaller one"
        ) from None
    except TooLarge:
        raise
    except Exception as problem:  # decoders raise many kinds of errors
        reason = str(problem).splitlines()[0] if str(problem) else type(problem).__name__
        raise UserError(f"the file cannot be read as a {known} image ({reason})") from None
