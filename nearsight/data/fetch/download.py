"""Download a file, continue a download that was cut off, and check the finished file."""

from __future__ import annotations

import hashlib
import http.client
import io
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

from nearsight.core import UserError, printable, sync
from nearsight.data.sets import Archive

Progress = Callable[[int, int], None]  # bytes so far, bytes in all

TIMEOUT_SECONDS = 30.0
PAUSE_SECONDS = 1.0
MAX_TRIES = 40
MAX_FRUITLESS = 4  # tries in a row that receive no byte
BYTES_PER_READ = 1 << 18
ELSEWHERE = "get the file from elsewhere and run `nearsight data import FILE`"
UNREACHABLE = (urllib.error.URLError, http.client.HTTPException, TimeoutError, ConnectionError)


LONGEST = 120  # characters of a server's answer that an error shows


class CutOffError(Exception):
    """The connection ended before the file was complete; ``str`` says why, on one short line."""

    def __str__(self) -> str:
        text = " ".join(printable(super().__str__()).split())
        return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."


class Redirects(urllib.request.HTTPRedirectHandler):
    """Follow redirects without reading their body, which may never end; urllib would read it."""

    def http_error_302(
        self, req: urllib.request.Request, fp: Any, code: int, msg: str, headers: Any
    ) -> Any:
        """Follow a redirect."""
        fp.close()
        return super().http_error_302(req, io.BytesIO(), code, msg, headers)

    http_error_301 = http_error_303 = http_error_307 = http_error_308 = http_error_302


_OPENER = urllib.request.build_opener(Redirects)


class Oversized(Exception):
    """The server sent more bytes than the file should have."""


def download(wanted: Archive, target: Path, progress: Progress | None = None) -> Path:
    """Download a file of known size and checksum to ``target``.

    The bytes received so far are kept in ``<target>.part``, and the next call continues there. A
    finished file with a wrong checksum is removed. The caller makes sure that no other process
    downloads the same file.

    Raises:
        UserError: If the file cannot be reached, or is not the expected one.
    """
    url = wanted.url
    part = target.with_name(f"{target.name}.part")
    with part.open("ab") as handle:
        try:
            _complete(wanted, handle, progress)
        except CutOffError as problem:
            if handle.tell():
                raise UserError(
                    f"the download of {url} was cut off ({problem}); {handle.tell():,} bytes are "
                    f"kept in {part}; run the same command again to continue"
                ) from None
            raise UserError(
                f"{url} cannot be reached ({problem}); check the network, or {ELSEWHERE}"
            ) from None
        except Oversized:
            _restart(handle)
            raise UserError(
                f"{url} sends more than the {wanted.num_bytes:,} bytes of the official file, so "
                f"the download was removed; {ELSEWHERE}"
            ) from None
        finally:
            if not handle.tell():
                part.unlink()
        if (digest := file_sha256(part)) != wanted.sha256:
            part.unlink()
            raise UserError(
                f"{url} sent a file with sha256 {digest}, but the official file has "
                f"{wanted.sha256}, so the download was removed; run the same command again"
            )
        sync(part)
        part.rename(target)
    return target


def file_sha256(path: Path) -> str:
    """Return the sha256 of a file in hex digits."""
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def _complete(wanted: Archive, handle: BinaryIO, progress: Progress | None) -> None:
    """Request the missing bytes, up to a number of times, until the file is complete.

    Raises:
        CutOffError: After too many tries, or several in a row that received no byte.
    """
    fruitless = tries = 0
    while True:
        before, tries = handle.tell(), tries + 1
        try:
            _continue(wanted, handle, progress)
        except CutOffError:
            fruitless = 0 if handle.tell() > before else fruitless + 1
            if fruitless == MAX_FRUITLESS or tries == MAX_TRIES:
                raise
            time.sleep(PAUSE_SECONDS)
        else:
            return


def _continue(wanted: Archive, handle: BinaryIO, progress: Progress | None) -> None:
    """Make one request for the missing bytes; raise CutOffError if the file is still incomplete."""
    url, start = wanted.url, handle.tell()
    request = urllib.request.Request(url, headers={"Range": f"bytes={start}-"} if start else {})
    try:
        with _OPENER.open(request, timeout=TIMEOUT_SECONDS) as response:
            if start and not _continues_at(response, start):
                start = 0
                _restart(handle)
            while piece := response.read(BYTES_PER_READ):
                if handle.tell() + len(piece) > wanted.num_bytes:
                    raise Oversized
                handle.write(piece)
                if progress is not None:
                    progress(handle.tell(), wanted.num_bytes)
            handle.flush()
    except urllib.error.HTTPError as problem:
        # 416: the server has no more bytes, so ours are complete or belong to another file.
        if problem.code == 416 and start:
            if problem.headers.get("Content-Range") != f"bytes */{start}":
                _restart(handle)
                raise CutOffError("the .part file belonged to another file") from None
            return
        if problem.code >= 500:
            raise CutOffError(f"{problem.code} {problem.reason}") from None
        reason = CutOffError(problem.reason)
        raise UserError(f"{url} answered {problem.code} {reason}; {ELSEWHERE}") from None
    except UNREACHABLE as problem:
        handle.flush()
        raise CutOffError(getattr(problem, "reason", None) or problem or "timeout") from None
    if handle.tell() < wanted.num_bytes:
        raise CutOffError(f"{handle.tell():,} of {wanted.num_bytes:,} bytes received")


def _restart(handle: BinaryIO) -> None:
    """Remove the bytes received so far."""
    handle.seek(0)
    handle.truncate()


def _continues_at(response: http.client.HTTPResponse, start: int) -> bool:
    """Return whether an answer starts where our bytes end; a server may send the whole file."""
    content = response.headers.get("Content-Range", "")
    return response.status == 206 and content.startswith(f"bytes {start}-")
