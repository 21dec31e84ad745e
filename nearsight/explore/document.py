"""Write the page as one HTML document, with script, style and data inline.

The document opens from a disk and fetches nothing. Its Content-Security-Policy forbids every
request and every script except its own. Names of files, classes and runs are inserted as JSON,
never as HTML.
"""

from __future__ import annotations

import base64
import hashlib
import json
from functools import cache
from html import escape
from importlib.resources import files
from string import Template
from typing import Any

from nearsight.core import printable

SCRIPT, STYLE, TEMPLATE = "explore.js", "explore.css", "document.html"
POLICY = (
    "default-src 'none'; script-src '{script}'; style-src '{style}'; img-src data: blob:; "
    "base-uri 'none'; form-action 'none'"
)


@cache
def read_bundled(name: str) -> str:
    """Return the text of a file of the built front end."""
    return (files("nearsight.explore") / "page" / "bundle" / name).read_text(encoding="utf-8")


def document_html(title: str, contents: dict[str, Any]) -> str:
    """Return the whole page for the given contents."""
    script, style = read_bundled(SCRIPT), read_bundled(STYLE)
    policy = POLICY.format(script=source_hash(script), style=source_hash(style))
    return Template(read_bundled(TEMPLATE)).substitute(
        title=escape(printable(title)),
        policy=f'<meta http-equiv="Content-Security-Policy" content="{escape(policy)}">',
        style=f"<style>{style}</style>",
        script=f"<script>{script}</script>",
        data=script_json(contents),
    )


def served_html(title: str, token: str) -> str:
    """Return the page that a server sends; it requests its script, style and data separately."""
    return Template(read_bundled(TEMPLATE)).substitute(
        title=escape(printable(title)),
        policy="",
        style=f'<link rel="stylesheet" href="{STYLE}">',
        script=f'<script src="{SCRIPT}"></script>',
        data=script_json({"server": {"token": token}}),
    )


def source_hash(text: str) -> str:
    """Return the hash that allows an inline script or style in a Content-Security-Policy.

    >>> source_hash("alert(1)")
    'sha256-bhHHL3z2vDgxUt0W3dWQOrprscmda2Y5pLsLg4GF+pI='
    """
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def script_json(contents: Any) -> str:
    r"""Return JSON that can neither end the script element around it nor open a comment.

    >>> script_json({"name": "</script><!--"})
    '{"name":"\\u003c/script>\\u003c!--"}'
    """
    text = json.dumps(contents, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c")


def iframe_html(page: str, title: str, height: int) -> str:
    """Return a sandboxed frame that shows the page inside another document.

    The frame may run its own script. It has its own origin, cannot read the document around it, and
    cannot open windows.
    """
    return (
        f'<iframe title="{escape(title)}" sandbox="allow-scripts" loading="lazy" '
        f'style="width:100%;height:{height}px;border:0" srcdoc="{escape(page)}"></iframe>'
    )
