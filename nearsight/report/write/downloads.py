"""Put files into a page as links that contain them, so that the page needs no other file."""

from __future__ import annotations

import base64
from dataclasses import dataclass

MEDIA = {
    "csv": "text/csv",
    "json": "application/json",
    "latex": "application/x-tex",
    "svg": "image/svg+xml",
    "png": "image/png",
    "pdf": "application/pdf",
}
SUFFIX = {"latex": "tex"}
LABEL = {"latex": "LaTeX"}


@dataclass(frozen=True)
class Download:
    """A file that the page offers for download."""

    name: str
    file_format: str  # one of MEDIA
    content: str | bytes

    @property
    def file_name(self) -> str:
        """The name under which a browser saves it."""
        return f"{self.name}.{SUFFIX.get(self.file_format, self.file_format)}"

    @property
    def label(self) -> str:
        """The text of its link."""
        return LABEL.get(self.file_format, self.file_format.upper())

    @property
    def address(self) -> str:
        """The link, a data URL with the whole file."""
        raw = self.content.encode() if isinstance(self.content, str) else self.content
        return f"data:{MEDIA[self.file_format]};base64,{base64.b64encode(raw).decode()}"
