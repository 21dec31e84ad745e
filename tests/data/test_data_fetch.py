"""Fetch and import against a local HTTP server that cuts off, ignores Range, or lies."""

from __future__ import annotations

import hashlib
import io
import re
import tarfile
import threading
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from made_data import write_cifar, write_tiny_imagenet

from nearsight.data import archive, download
from nearsight.data.archive import fetch_dataset, import_folder
from nearsight.data.catalog import check_dataset
from nearsight.data.sources import SOURCES

FOLDER = "cifar-100-binary"


@dataclass
class Server:
    """What the server sends, how it misbehaves, and what it was asked for."""

    content: bytes = b""
    cut_after: list[int] = field(default_factory=list)  # bytes per answer, then the line is dead
    ranges: bool = True
    status: int = 200
    asked: list[str | None] = field(default_factory=list)
    port: int = 0


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


def tar_of(files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as packed:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            packed.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


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
            SOURCES["cifar100"],
            url=f"http://127.0.0.1:{server.port}/cifar-100-binary.tar.gz",
            md5=hashlib.md5(content).hexdigest(),
        )
        monkeypatch.setitem(SOURCES, "cifar100", source)

    return offered


@pytest.fixture
def root(offer: Callable[[bytes], None], cifar_files: dict[str, bytes], tmp_path: Path) -> Path:
    offer(tar_of(cifar_files))
    return tmp_path / "root"


def test_a_fetched_folder_has_the_archives_files_and_is_official(
    root: Path, server: Server, cifar_files: dict[str, bytes]
) -> None:
    seen: list[tuple[int, int | None]] = []
    folder = fetch_dataset("cifar100", root, lambda done, total: seen.append((done, total)))
    found = {f"{FOLDER}/{path.name}": path.read_bytes() for path in folder.iterdir()}
    assert found.pop(f"{FOLDER}/origin.json")
    assert found == cifar_files
    assert seen[-1] == (len(server.content), len(server.content))
    assert [path.name for path in root.iterdir()] == [FOLDER]
    assert check_dataset("cifar100", root).verdict == "official"


def test_what_is_there_is_not_fetched_again(root: Path, server: Server) -> None:
    assert fetch_dataset("cifar100", root) == fetch_dataset("cifar100", root)
    assert len(server.asked) == 1


def test_cut_offs_are_continued_where_they_happened(root: Path, server: Server) -> None:
    server.cut_after = [3001, 2003, 1]
    fetch_dataset("cifar100", root)
    assert server.asked == [None, "bytes=3001-", "bytes=5004-", "bytes=5005-"]


def test_a_dead_line_keeps_the_part_and_the_next_call_continues(root: Path, server: Server) -> None:
    server.cut_after = [3001, 0, 0, 0, 0]
    with pytest.raises(ValueError, match=r"cut off .*3,001 bytes are kept .*again to continue"):
        fetch_dataset("cifar100", root)
    part = root / "cifar-100-binary.tar.gz.part"
    assert part.read_bytes() == server.content[:3001]
    assert fetch_dataset("cifar100", root).is_dir()
    assert server.asked[-1] == "bytes=3001-"
    assert not part.exists()


def test_a_server_that_ignores_range_starts_anew(root: Path, server: Server) -> None:
    server.ranges = False
    server.cut_after = [3001]
    assert fetch_dataset("cifar100", root).is_dir()
    assert server.asked == [None, "bytes=3001-"]


def test_a_part_that_is_already_whole_is_taken(root: Path, server: Server) -> None:
    root.mkdir()
    (root / "cifar-100-binary.tar.gz.part").write_bytes(server.content)
    assert fetch_dataset("cifar100", root).is_dir()


def test_a_part_that_is_too_long_is_dropped(root: Path, server: Server) -> None:
    root.mkdir()
    (root / "cifar-100-binary.tar.gz.part").write_bytes(server.content + b"more")
    assert fetch_dataset("cifar100", root).is_dir()
    assert server.asked[-1] is None


def test_a_wrong_checksum_removes_the_part(root: Path, server: Server) -> None:
    server.content = server.content[:-1] + b"?"
    with pytest.raises(ValueError, match=r"checksum [0-9a-f]{32}, expected [0-9a-f]{32}"):
        fetch_dataset("cifar100", root)
    assert list(root.iterdir()) == []


def test_a_missing_page_says_where_else_to_look(root: Path, server: Server) -> None:
    server.status = 404
    with pytest.raises(ValueError, match=r"answered 404 .*nearsight data import FILE"):
        fetch_dataset("cifar100", root)
    assert len(server.asked) == 1
    assert list(root.iterdir()) == []


def test_a_server_error_is_tried_again_then_told(root: Path, server: Server) -> None:
    server.status = 503
    with pytest.raises(ValueError, match=r"cannot be reached \(503"):
        fetch_dataset("cifar100", root)
    assert len(server.asked) == download.MAX_FRUITLESS


def test_no_network_is_said(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nowhere = replace(SOURCES["cifar100"], url="http://127.0.0.1:9/cifar-100-binary.tar.gz")
    monkeypatch.setitem(SOURCES, "cifar100", nowhere)
    with pytest.raises(ValueError, match=r"cannot be reached .*check the network"):
        fetch_dataset("cifar100", root)
    assert list(root.iterdir()) == []


def test_two_downloads_to_one_file_are_refused(root: Path, tmp_path: Path, server: Server) -> None:
    refused = []

    def again(*_: object) -> None:
        with pytest.raises(ValueError, match="another process is downloading"):
            fetch_dataset("cifar100", root)
        refused.append(True)

    fetch_dataset("cifar100", root, again)
    assert refused


@pytest.mark.parametrize(
    "name", ["../evil.bin", "/evil.bin", f"{FOLDER}/../evil.bin", f"{FOLDER}\\..\\evil", "other/a"]
)
def test_a_member_that_leads_elsewhere_is_refused(
    offer: Callable[[bytes], None], cifar_files: dict[str, bytes], tmp_path: Path, name: str
) -> None:
    offer(tar_of({**cifar_files, name: b"evil"}))
    with pytest.raises(ValueError, match=f"expected only files below {FOLDER}/"):
        fetch_dataset("cifar100", tmp_path / "root")
    assert [path.name for path in (tmp_path / "root").iterdir()] == ["cifar-100-binary.tar.gz"]
    assert not list(tmp_path.rglob("evil*"))


def test_links_in_an_archive_are_left_out(
    offer: Callable[[bytes], None], cifar_files: dict[str, bytes], tmp_path: Path
) -> None:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as packed:
        link = tarfile.TarInfo(f"{FOLDER}/link")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        packed.addfile(link)
        for name, content in cifar_files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            packed.addfile(info, io.BytesIO(content))
    offer(buffer.getvalue())
    folder = fetch_dataset("cifar100", tmp_path / "root")
    assert not (folder / "link").is_symlink()


def test_shapes_needs_no_fetch_and_unknown_names_give_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="shapes needs no download"):
        fetch_dataset("shapes", tmp_path)
    with pytest.raises(ValueError, match="did you mean cifar10"):
        fetch_dataset("cifar1", tmp_path)


def test_an_official_archive_is_imported_by_its_checksum(
    root: Path, server: Server, tmp_path: Path
) -> None:
    (tmp_path / "renamed.bin").write_bytes(server.content)
    assert import_folder(tmp_path / "renamed.bin", root) == root / FOLDER
    assert check_dataset("cifar100", root).verdict == "official"
    assert (tmp_path / "renamed.bin").exists()


def test_another_archive_is_refused(root: Path, server: Server, tmp_path: Path) -> None:
    (tmp_path / "cut.tar.gz").write_bytes(server.content[:-1])
    with pytest.raises(ValueError, match=r"none of the official archives .*cut off"):
        import_folder(tmp_path / "cut.tar.gz", root)
    assert not root.exists()


@pytest.mark.parametrize("above", [False, True])
def test_an_unpacked_folder_is_imported_by_its_structure(
    root: Path, tmp_path: Path, above: bool
) -> None:
    source = tmp_path / "given" / FOLDER
    write_cifar(source, "cifar100", num_classes=3, num_per_file=7)
    folder = import_folder(source.parent if above else source, root)
    assert folder == root / FOLDER
    assert (folder / "train.bin").read_bytes() == (source / "train.bin").read_bytes()
    assert check_dataset("cifar100", root).verdict == "not the official bytes"
    with pytest.raises(ValueError, match="already in"):
        import_folder(source, root)


def test_an_official_folder_stays_official_and_a_cut_off_one_is_refused(
    root: Path, tmp_path: Path
) -> None:
    folder = fetch_dataset("cifar100", root)
    import_folder(folder, tmp_path / "second")
    assert check_dataset("cifar100", tmp_path / "second").verdict == "official"
    (folder / "test.bin").write_bytes(b"cut off")
    with pytest.raises(ValueError, match=r"test\.bin has 7 bytes"):
        import_folder(folder, tmp_path / "third")
    assert not (tmp_path / "third").exists()


def test_cifar10_and_tiny_imagenet_are_told_apart(root: Path, tmp_path: Path) -> None:
    write_cifar(tmp_path / "ten", "cifar10", num_classes=3, num_per_file=7)
    write_tiny_imagenet(tmp_path / "tiny")
    assert import_folder(tmp_path / "ten", root).name == "cifar-10-batches-bin"
    assert import_folder(tmp_path / "tiny", root).name == "tiny-imagenet-200"


def test_a_zip_is_unpacked_like_a_tar(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_tiny_imagenet(tmp_path / "tiny-imagenet-200")
    path = tmp_path / "tiny.zip"
    with zipfile.ZipFile(path, "w") as packed:
        for file in (tmp_path / "tiny-imagenet-200").rglob("*"):
            packed.write(file, file.relative_to(tmp_path))
    source = replace(SOURCES["tiny-imagenet"], md5=hashlib.md5(path.read_bytes()).hexdigest())
    monkeypatch.setitem(SOURCES, "tiny-imagenet", source)
    import_folder(path, tmp_path / "root")
    assert check_dataset("tiny-imagenet", tmp_path / "root").verdict == "official"


def test_a_folder_of_something_else_is_refused(root: Path, tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    with pytest.raises(ValueError, match="an image folder needs no import"):
        import_folder(tmp_path / "photos", root)
    with pytest.raises(ValueError, match="there is no file or folder"):
        import_folder(tmp_path / "nothing", root)


def test_an_import_that_breaks_off_leaves_nothing(
    root: Path, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    (tmp_path / "official.tar.gz").write_bytes(server.content)
    monkeypatch.setattr(archive.shutil, "copyfileobj", full)
    with pytest.raises(OSError, match="No space left"):
        import_folder(tmp_path / "official.tar.gz", root)
    assert list(root.iterdir()) == []
