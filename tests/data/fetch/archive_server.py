"""What a local server offers and how it misbehaves; archives for it to offer."""

from __future__ import annotations

import io
import tarfile
from dataclasses import dataclass, field

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


def tar_of(files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as packed:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            packed.addfile(info, io.BytesIO(content))
    return buffer.getvalue()
