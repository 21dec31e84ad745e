"""Damaged, odd and hostile image files, read by measure and by train."""

from __future__ import annotations

import io
import zlib
from functools import cache
from pathlib import Path

import numpy as np
from attack.attack import Attack
from attack.inputs.damage import byte_damages, damaged_bytes
from attack.verdicts import ACCEPTED, Verdict, unnoticed, verdict_of
from hypothesis import strategies as some
from PIL import Image

SIZE = (19, 17)
FORMATS = ("PNG", "JPEG", "GIF", "BMP", "TIFF", "WEBP", "PPM")
CHECKED = ("PNG",)  # formats that have checksums, so that a changed pixel can be noticed
MODES = ("RGB", "L", "P", "RGBA", "LA", "1", "I;16", "I", "F", "CMYK", "YCbCr", "HSV", "LAB")
EPS = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 16 16\n(x) run\nshowpage\n"


@cache
def whole(format_: str) -> bytes:
    """Return a whole image of random pixels in a format."""
    pixels = np.random.default_rng(3).integers(0, 256, (SIZE[1], SIZE[0], 3), dtype=np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, format_)
    return buffer.getvalue()


def _read(path: Path) -> np.ndarray:
    from nearsight.data.sets.pixels import read_pixels

    return np.asarray(read_pixels(path))


def _damaged(case: tuple[str, str, list], place: Path) -> Verdict:
    """Damage the bytes of an image, and decode it as a data set and as measure do."""
    from nearsight.data.input import read_picture
    from nearsight.data.input.preprocessing import Preprocessing

    format_, suffix, damages = case
    content = whole(format_)
    for damage in damages:
        content = damaged_bytes(content, damage)
    path = place / f"a.{suffix}"
    path.write_bytes(content)
    steps = Preprocessing("none", (16, 16), (16, 16))

    def both() -> np.ndarray:
        from nearsight.core import UserError
        from nearsight.data.sets.pixels import Reader, is_passing

        found = Reader(place, 16, False)._read(path)
        try:
            read_picture(place, path.name, steps)
        except UserError:
            if not isinstance(found, str):
                raise AssertionError("measure refuses an image that train takes") from None
        else:
            if isinstance(found, str):
                raise AssertionError(f"train refuses an image that measure takes: {found}")
        if isinstance(found, str):
            assert found.strip(), "a reason without words"
            raise UserError(found)
        assert not is_passing(ValueError())
        return _read(path)

    verdict = verdict_of(both)
    if verdict.what == ACCEPTED and format_ in CHECKED and content != whole(format_):
        (place / "whole.png").write_bytes(whole(format_))
        if not np.array_equal(verdict.value, _read(place / "whole.png")):
            return unnoticed(f"a damaged {format_} gave other pixels")
    return verdict


def _odd(case: tuple[str, str, int, int, int], place: Path) -> Verdict:
    """Write a whole image of an odd kind; what is accepted has the brightness that it should."""
    mode, format_, width, height, seed = case
    path = place / f"a.{format_.lower()}"
    rng = np.random.default_rng(seed)
    grey = rng.integers(0, 256, (height, width)).astype(np.uint8)
    try:
        image = _image_of(mode, grey)
        image.save(path, format_)
    except (OSError, ValueError, KeyError, TypeError):
        return Verdict(ACCEPTED, "Pillow cannot write it")
    verdict = verdict_of(lambda: _read(path))
    kept = mode in ("L", "RGB") or (mode in ("I", "F", "I;16") and format_ in ("PNG", "TIFF"))
    if verdict.what == ACCEPTED and kept:
        brightness = abs(float(verdict.value.mean()) - float(grey.mean()))
        if brightness > 24:  # JPEG and palettes move single pixels, not the mean
            return unnoticed(f"mode {mode} as {format_}: the mean moved by {brightness:.0f} of 255")
    return verdict


def _image_of(mode: str, grey: np.ndarray) -> Image.Image:
    if mode == "I;16":
        return Image.fromarray(grey.astype(np.uint16) * 257)
    if mode == "I":
        return Image.fromarray(grey.astype(np.int32))
    if mode == "F":
        return Image.fromarray(grey.astype(np.float32) / 255)
    return Image.fromarray(grey).convert(mode)


def _header(width: int, height: int) -> bytes:
    """Return a PNG that says it is this large and has next to no pixels."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        check = zlib.crc32(kind + content).to_bytes(4, "big")
        return len(content).to_bytes(4, "big") + kind + content + check

    size = width.to_bytes(4, "big") + height.to_bytes(4, "big") + b"\x08\x02\x00\x00\x00"
    pixels = zlib.compress(b"\x00" * 100)
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", size) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")
    )


def _hostile(case: tuple[int, int, str], place: Path) -> Verdict:
    """Give a bomb, or a program under the name of an image, to a whole folder's reader."""
    from nearsight.data.input import find_pictures, read_picture
    from nearsight.data.input.preprocessing import Preprocessing

    width, height, suffix = case
    content = EPS if width == 0 else _header(width, height)
    (place / f"a.{suffix}").write_bytes(content)
    steps = Preprocessing("none", (16, 16), (16, 16))
    verdict = verdict_of(lambda: [read_picture(place, x, steps) for x in find_pictures(place)[0]])
    if verdict.what == ACCEPTED:
        return unnoticed(f"a file that is no whole image was read as {suffix}")
    return verdict


SUFFIXES = some.sampled_from(("png", "jpg", "gif", "bmp", "tif", "webp", "ppm"))
ATTACKS = (
    Attack(
        "damaged images",
        some.tuples(
            some.sampled_from((*FORMATS, "PNG", "PNG")),
            SUFFIXES,
            some.lists(byte_damages(), min_size=1, max_size=2),
        ),
        _damaged,
        share=12,
    ),
    Attack(
        "odd images",
        some.tuples(
            some.sampled_from(MODES), some.sampled_from(FORMATS), some.integers(1, 40),
            some.integers(1, 40), some.integers(0, 5),
        ),
        _odd,
        share=4,
    ),
    Attack(
        "hostile images",
        some.tuples(
            some.one_of(some.just(0), some.integers(50, 2**31 - 1)), some.integers(1,
            2**31 - 1), SUFFIXES
        ),
        _hostile,
        share=2,
    ),
)  # fmt: skip


def warm() -> None:
    """Load what a first attempt would load."""
    Image.init()
    for format_ in FORMATS:
        whole(format_)
