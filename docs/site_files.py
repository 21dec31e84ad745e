"""Hooks of the documentation site: choose its files, and check that it loads nothing from outside.

The site keeps the layout of the repository (``README.md``, ``docs/measure.md``), so that a relative
link works on a code host, in an editor and on the site.
"""

from __future__ import annotations

import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
PATTERNS = (
    "*.md",
    "CITATION.cff",
    "LICENSE",
    "docs/**/*.md",
    "docs/**/*.jpg",
    "docs/figures/*",
    "docs/schemas/*.json",
    "docs/site.css",
    "examples/README.md",
    "examples/*.ipynb",
    "results/README.md",
    "results/*/report.html",
)
INLINE_CODE = re.compile(r"<code>[^<]*</code>")
OPTION = re.compile(r"(?<![\w-])--[\w-]+")
REMOTE = re.compile(r"""<(?:script|link|img|iframe)\b[^>]*?\b(?:src|href)=["'](https?:)?//""")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Return the theme's files and those of the repository that belong to the site."""
    ours = {str(path.relative_to(ROOT)) for pattern in PATTERNS for path in ROOT.glob(pattern)}
    pages = [
        File(path, str(ROOT), config.site_dir, config.use_directory_urls) for path in sorted(ours)
    ]
    theirs = [file for file in files if file.src_dir != config.docs_dir]
    return Files([*theirs, *pages])


def on_page_content(html: str, **_: object) -> str:
    """Keep a line from breaking inside an option such as ``--random-init``."""
    return INLINE_CODE.sub(
        lambda code: OPTION.sub(r'<span class="option">\g<0></span>', code[0]), html
    )


def on_post_build(config: MkDocsConfig) -> None:
    """Fail if a page would load a script, style or image from another machine."""
    for page in Path(config.site_dir).rglob("*.html"):
        if remote := REMOTE.search(page.read_text()):
            raise PluginError(f"{page} loads a file from the network: {remote.group(0)}")
