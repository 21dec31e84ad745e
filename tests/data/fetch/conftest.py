"""A local server that offers archives, and cuts lines or ignores Range on demand."""

from __future__ import annotations

import hashlib
import re
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from data.fetch.archive_server import Server, tar_of
from made_data import write_cifar

from nearsight.data.fetch import download
from nearsight.data.sets.catalog import SETS, source_of

FOLDER = "cifar-100-binary"


@pytest.fixture
def server() -> Iterator[Server]:
    state = Server()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            wanted = self.headers.get("Range")
            state.asked.append(wanted)
            start = int(re.findall(r"\d+", wanted)[0]) if wanted and state.ranges else 0
            if state.status != 200:
                self.send_error(state.status)
                return
            if start >= len(state.content):
                self.send_response(416)
                self.send_header("Content-Range", f"bytes */{len(state.content)}")
                self.end_headers()
                return
            body = state.content[start:]
            self.send_response(206 if start else 200)
            if start:
                last = len(state.content) - 1
                self.send_header("Content-Range", f"bytes {start}-{last}/{len(state.content)}")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body[: state.cut_after.pop(0)] if state.cut_after else body)

        def log_message(self, *_: object) -> None:
            pass

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    state.port = http.server_address[1]
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield state
    http.shutdown()
    thread.join()
    http.server_close()


@pytest.fixture
def cifar_files(tmp_path: Path) -> dict[str, bytes]:
    write_cifar(tmp_path / "made", "cifar100", num_classes=3, num_per_file=5)
    return {f"{FOLDER}/{path.name}": path.read_bytes() for path in (tmp_path / "made").iterdir()}


@pytest.fixture
def offer(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[bytes], None]:
    """Let the server and the table of sources hold these bytes as CIFAR-100."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setattr(download, "PAUSE_SECONDS", 0.01)
    monkeypatch.setattr(download, "BYTES_PER_READ", 1000)

    def offered(content: bytes) -> None:
        server.content = content
        source = replace(
            source_of("cifar100"),
            url=f"http://127.0.0.1:{server.port}/cifar-100-binary.tar.gz",
            sha256=hashlib.sha256(content).hexdigest(),
            num_bytes=len(content),
        )
        monkeypatch.setitem(SETS, "cifar100", replace(SETS["cifar100"], source=source))

    return offered


@pytest.fixture
def root(offer: Callable[[bytes], None], cifar_files: dict[str, bytes], tmp_path: Path) -> Path:
    offer(tar_of(cifar_files))
    return tmp_path / "root"
