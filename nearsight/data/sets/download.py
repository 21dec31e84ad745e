"""Downloads that survive cut-offs: a ``.part`` file is continued, a checksum taken at the end."""

from __future__ import annotations

import hashlib
import http.client
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from nearsight.core import UserError, sync

Progress = Callable[[int, int | None], None]  # bytes so far, bytes in all if known

TIMEOUT_SECONDS = 30.0
PAUSE_SECONDS = 1.0
MAX_FRUITLESS = 4  # tries in a row that bring no byte
BYTES_PER_READ = 1 << 18
ELSEWHERE = "get the file elsewhere and run `nearsight data import FILE`"
UNREACHABLE = (urllib.error.URLError, http.client.HTTPException, TimeoutError, ConnectionError)


class CutOffError(Exception):
    """The connection ended before the file did."""


def download(url: str, md5: str, target: Path, progress: Progress | None = None) -> Path:
    """``target`` with the content of ``url``; UserError says what to do when that fails.

    What has arrived is in ``<target>.part`` and the next call continues it. Bytes with a wrong
    checksum are removed: they cannot be continued. The caller makes sure that no other process
    downloads the same file.
    """
    part = target.with_name(f"{target.name}.part")
    with part.open("ab") as handle:
        try:
            _complete(url, handle, progress)
        except CutOffError as problem:
            if handle.tell():
                raise UserError(
                    f"{url} was cut off ({problem}); {handle.tell():,} bytes are kept in {part}, "
                    "run the same command again to continue"
                ) from None
            raise UserError(
                f"{url} cannot be reached ({problem}); check the network, or {ELSEWHERE}"
            ) from None
        finally:
            if not handle.tell():
                part.unlink()
        if (found := file_md5(part)) != md5:
            part.unlink()
            raise UserError(
                f"{url} gave a file with checksum {found}, expected {md5}: it was removed, "
                "run the same command again"
            )
        sync(part)
        part.rename(target)
    return target


def file_md5(path: Path) -> str:
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()


def _complete(url: str, handle: BinaryIO, progress: Progress | None) -> None:
    """Ask until the whole file is there, as long as every few tries bring something."""
    fruitless = 0
    while True:
        before = handle.tell()
        try:
            _continue(url, handle, progress)
        except CutOffError:
            fruitless = 0 if handle.tell() > before else fruitless + 1
            if fruitless == MAX_FRUITLESS:
                raise
            time.sleep(PAUSE_SECONDS)
        else:
            return


def _continue(url: str, handle: BinaryIO, progress: Progress | None) -> None:
    """One request for what is missing; CutOffError if something is missing still."""
    start = handle.tell()
    request = urllib.request.Request(url, headers={"Range": f"bytes={start}-"} if start else {})
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS) as response:
            if start and not _continues_at(response, start):
                start = 0
                _restart(handle)
            length = response.headers.get("Content-Length")
            total = start + int(length) if length and length.isdigit() else None
            while piece := response.read(BYTES_PER_READ):
                handle.write(piece)
                if progress is not None:
                    progress(handle.tell(), total)
            handle.flush()
    except urllib.error.HTTPError as problem:
        if problem.code == 416 and start:  # nothing after what we have: complete, or not this file
            if problem.headers.get("Content-Range") != f"bytes */{start}":
                _restart(handle)
                raise CutOffError("the part did not belong to it") from None
            return
        if problem.code >= 500:
            raise CutOffError(f"{problem.code} {problem.reason}") from None
        raise UserError(f"{url} answered {problem.code} {problem.reason}; {ELSEWHERE}") from None
    except UNREACHABLE as problem:
        handle.flush()
        raise CutOffError(getattr(problem, "reason", None) or problem or "timeout") from None
    if total is not None and handle.tell() < total:
        raise CutOffError(f"{handle.tell():,} of {total:,} bytes")


def _restart(handle: BinaryIO) -> None:
    handle.seek(0)
    handle.truncate()


def _continues_at(response: http.client.HTTPResponse, start: int) -> bool:
    """Whether the answer starts where the part ends; a server may send the whole file instead."""
    content = response.headers.get("Content-Range", "")
    return response.status == 206 and content.startswith(f"bytes {start}-")
