"""Archives of data sets that lead elsewhere, and servers that misbehave."""

from __future__ import annotations

import hashlib
import io
import tarfile
import threading
import time
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from unittest.mock import patch

from attack.attack import Attack
from attack.inputs.damage import byte_damages, damaged_bytes
from attack.material import room
from attack.verdicts import ACCEPTED, Verdict, unnoticed, verdict_of
from data.fetch.archive_server import FOLDER, tar_of
from hypothesis import strategies as some
from made_data import write_cifar

from nearsight.data.fetch import download
from nearsight.data.sets.catalog import SETS, check_dataset, source_of

LARGEST = 1 << 20  # bytes that a server may make us write, of an archive of some kilobytes
NAMES = (
    "../x", "/tmp/attack-x", "../../../../x", f"{FOLDER}/../../x", f"{FOLDER}\\..\\..\\x",
    "C:\\x", "", ".",
    f"{FOLDER}", f"{FOLDER}/", f"/{FOLDER}/x",
    f"{FOLDER}/./x", f"{FOLDER}//x", f"{FOLDER}/a/b/../../../x",
    "~/x", f"{FOLDER}/\x00", f"{FOLDER}/" + "x" * 300, f"{FOLDER}/origin.json",
    f"{FOLDER}/train.bin",
    f"{FOLDER}/train.bin/x", f"{FOLDER}/é\u202e", f"{FOLDER}/\udcff",
)  # fmt: skip
KINDS = (
    tarfile.REGTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE,
    tarfile.FIFOTYPE,
    tarfile.DIRTYPE, tarfile.CONTTYPE, tarfile.GNUTYPE_SPARSE,
)  # fmt: skip


@cache
def cifar_files() -> dict[str, bytes]:
    """Return the files of a small CIFAR-100 by their names in the archive."""
    write_cifar(room() / "cifar", "cifar100", num_classes=3, num_per_file=5)
    return {f"{FOLDER}/{x.name}": x.read_bytes() for x in sorted((room() / "cifar").iterdir())}


@cache
def _archive() -> bytes:
    return tar_of(cifar_files())


def _offered(content: bytes, url: str = "http://127.0.0.1:9/x") -> Any:
    """Let the table of sources hold these bytes as the official CIFAR-100."""
    source = replace(
        source_of("cifar100"),
        url=url,
        sha256=hashlib.sha256(content).hexdigest(),
        num_bytes=len(content),
    )
    return patch.dict(SETS, cifar100=replace(SETS["cifar100"], source=source))


def _bytes_below(folder: Path) -> int:
    return sum(x.stat().st_size for x in folder.rglob("*") if x.is_file() and not x.is_symlink())


def _hostile(case: tuple[list[tuple[str, bytes, str]], bool], place: Path) -> Verdict:
    """Unpack members that lead elsewhere; the checksum is made to be right."""
    from nearsight.data.fetch import import_folder

    members, zipped = case
    content = _zip(members) if zipped else _tar(members)
    path = place / "archive"
    path.write_bytes(content)
    with _offered(content):
        verdict = verdict_of(lambda: import_folder(path, place / "root"))
        if verdict.what == ACCEPTED:
            for found in (place / "root").rglob("*"):
                if found.is_symlink() or not (found.is_file() or found.is_dir()):
                    return unnoticed(f"a link or device was made: {found}")
        elif (place / "root" / FOLDER).exists():
            return unnoticed("refused, but a data set appeared")
    left = [x for x in (place / "root").glob("*") if x.name != FOLDER]
    left += [x for x in (place / "root").glob(".*") if "cache" not in x.name]
    return unnoticed(f"left behind: {left[0].name}") if left else verdict


def _tar(members: list[tuple[str, bytes, str]]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", errors="surrogateescape") as packed:
        for name, content in cifar_files().items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            packed.addfile(info, io.BytesIO(content))
        for name, kind, link in members:
            info = tarfile.TarInfo(name)
            info.type, info.linkname = kind, link
            content = b"attack" if kind in (tarfile.REGTYPE, tarfile.CONTTYPE) else b""
            info.size = len(content)
            packed.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


def _zip(members: list[tuple[str, bytes, str]]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as packed:
        for name, content in cifar_files().items():
            packed.writestr(name, content)
        for name in dict.fromkeys(x for x, _, _ in members if x not in cifar_files()):
            packed.writestr(
                zipfile.ZipInfo(name.encode(errors="replace").decode() or "x"), b"attack"
            )
    return buffer.getvalue()


def _damaged(case: tuple[list, bool], place: Path) -> Verdict:
    """Damage an archive: by its checksum it is refused; with a right one, it may be cut off."""
    from nearsight.data.fetch import import_folder

    damages, forged = case
    content = _archive()
    for damage in damages:
        content = damaged_bytes(content, damage)
    path = place / "archive"
    path.write_bytes(content)
    with _offered(content if forged else _archive()):
        verdict = verdict_of(lambda: import_folder(path, place / "root"))
    if verdict.what == ACCEPTED:
        found = {f"{FOLDER}/{x.name}": x.read_bytes() for x in (place / "root" / FOLDER).iterdir()}
        found.pop(f"{FOLDER}/origin.json")
        if content != _archive() and not forged:
            return unnoticed("an archive with a wrong checksum was taken")
        if found.keys() - cifar_files().keys():
            return unnoticed("files that the archive does not have")
    return verdict


def _unpacked(case: tuple[str, list], place: Path) -> Verdict:
    """Damage a file of an unpacked data set; it must not be called official."""
    name, damages = case
    with _offered(_archive()):
        from nearsight.data.fetch import import_folder

        (place / "archive").write_bytes(_archive())
        folder = import_folder(place / "archive", place / "root")
        before = (folder / name).read_bytes()
        after = before
        for damage in damages:
            after = damaged_bytes(after, damage)
        (folder / name).write_bytes(after)
        verdict = verdict_of(lambda: check_dataset("cifar100", place / "root"))
    changed = after != before and name != "origin.json"
    if verdict.what == ACCEPTED and changed and verdict.value.verdict == "official":
        return unnoticed(f"{name} was changed, but the set is called official")
    return verdict


HEADERS = some.lists(
    some.tuples(
        some.sampled_from(("Content-Length", "Content-Range", "Transfer-Encoding", "Location",
        "X" * 300)),
        some.sampled_from(
            ("0", "-1", "10", "99999999999999999999", "bytes 0-1/2", "bytes */0", "chunked", "gzip",
             "file:///etc/passwd", "data:,x", "http://127.0.0.1:9/", "/", "x", "bytes 100-5/0",
             "\x7f")
        ),
    ),
    max_size=3,
)  # fmt: skip
ANSWERS = some.lists(
    some.tuples(
        some.sampled_from((200, 200, 200, 206, 206, 204, 301, 302, 304, 307, 400, 403, 404, 416,
        429, 500,
                           503, 599, 199, 999)),
        HEADERS,
        some.sampled_from(("whole", "rest", "cut", "nothing", "other", "more", "endless",
        "dribble", "close",
                           "garbage")),
        some.integers(1, 3000),
    ),
    min_size=1,
    max_size=6,
)  # fmt: skip


@contextmanager
def _server(answers: list[tuple[int, list, str, int]]) -> Iterator[str]:
    """Serve the answers in turn; the last one is repeated."""
    asked = iter(answers)
    last = [answers[-1]]

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, headers, body, number = next(asked, last[0])
            try:
                self._answer(status, headers, body, number)
            except (OSError, ValueError):
                self.close_connection = True

        def _answer(self, status: int, headers: list, body: str, number: int) -> None:
            whole = _archive()
            start = int("0" + self.headers.get("Range", "").partition("=")[2].partition("-")[0])
            if body == "close":
                self.connection.close()
                return
            if body == "garbage":
                self.wfile.write(b"\x00\xff garbage " * number)
                return
            content = {
                "whole": whole, "rest": whole[start:], "cut": whole[start : start + number],
                "nothing": b"",
                "other": bytes(number), "more": whole + bytes(number),
                "dribble": whole[start : start + 1],
                "endless": b"",
            }[body]  # fmt: skip
            self.send_response(status)
            named = {name for name, _ in headers}
            for name, value in headers:
                self.send_header(name, value)
            if "Content-Length" not in named and body not in ("endless", "cut"):
                self.send_header("Content-Length", str(len(content)))
            if status == 206 and "Content-Range" not in named:
                self.send_header("Content-Range", f"bytes {start}-{len(whole) - 1}/{len(whole)}")
            self.end_headers()
            self.wfile.write(content)
            until = time.monotonic() + 5
            while body == "endless" and time.monotonic() < until:
                self.wfile.write(bytes(1 << 16))

        def log_message(self, *_: object) -> None:
            pass

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    http.daemon_threads = True
    thread = threading.Thread(
        target=http.serve_forever, kwargs={"poll_interval": 0.005}, daemon=True
    )
    thread.start()
    try:
        yield f"http://127.0.0.1:{http.server_address[1]}/cifar-100-binary.tar.gz"
    finally:
        http.shutdown()
        http.server_close()


def _served(case: tuple[list, bytes], place: Path) -> Verdict:
    """Fetch from a server that answers as it likes, with some bytes already there."""
    from nearsight.data.fetch.archive import fetch_dataset

    answers, part = case
    (place / "root").mkdir()
    if part:
        (place / "root" / "cifar-100-binary.tar.gz.part").write_bytes(part)
    with (
        _server(answers) as url,
        _offered(_archive(), url),
        patch.multiple(download, PAUSE_SECONDS=0.0, TIMEOUT_SECONDS=0.3, BYTES_PER_READ=1 << 12),
        patch("socket.getfqdn", lambda name="": name),
    ):
        verdict = verdict_of(lambda: fetch_dataset("cifar100", place / "root"))
    if verdict.what == ACCEPTED:
        found = {f"{FOLDER}/{x.name}": x.read_bytes() for x in (place / "root" / FOLDER).iterdir()}
        found.pop(f"{FOLDER}/origin.json")
        if found != cifar_files():
            return unnoticed("the data set has other bytes than the archive")
    if _bytes_below(place / "root") > LARGEST:
        return unnoticed(f"{_bytes_below(place / 'root')} bytes were written")
    return verdict


DAMAGES = some.lists(byte_damages(), min_size=1, max_size=2)
ATTACKS = (
    Attack(
        "hostile archives",
        some.tuples(
            some.lists(
                some.tuples(some.sampled_from(NAMES), some.sampled_from(KINDS),
                some.sampled_from(NAMES)),
                min_size=1,
                max_size=3,
            ),
            some.booleans(),
        ),
        _hostile,
        share=5,
    ),
    Attack("damaged archives", some.tuples(DAMAGES, some.booleans()), _damaged, share=5),
    Attack(
        "unpacked data sets",
        some.tuples(
            some.sampled_from(("train.bin", "test.bin", "fine_label_names.txt",
            "origin.json")), DAMAGES
        ),
        _unpacked,
        share=4,
    ),
    Attack(
        "servers",
        some.tuples(ANSWERS, some.one_of(some.just(b""), some.binary(max_size=50))),
        _served,
        share=4,
    ),
)  # fmt: skip


def warm() -> None:
    """Load what a first attempt would load."""
    _archive()
    cifar_files()
