"""Write docs/api.md from the docstrings of what ``import nearsight`` offers.

Run ``python docs/make_api.py`` after you change a public function or its docstring. A test fails
while the page is out of date.
"""

from __future__ import annotations

import inspect
import re
import textwrap
from pathlib import Path
from types import ModuleType
from typing import Any

import nearsight as ns

PAGE = Path(__file__).with_name("api.md")
GROUPS = {
    "Measure": ("measure_model", "measure_named", "measure_run", "Profile", "load_profile",
                "profile_difference", "write_report"),
    "Look": ("explore", "attention_maps", "capture_attention"),
    "Models and data": ("create_model", "Grid", "load_dataset", "load_run"),
    "Train": ("preset", "Protocol", "at_fraction", "train_run", "evaluate_model"),
}  # fmt: skip


def api_page() -> str:
    """Return the page as Markdown."""
    grouped = {name for names in GROUPS.values() for name in names}
    rest = [name for name in ns.__all__ if name not in grouped and not name.startswith("_")]
    metrics = sorted(name for name in rest if name in ns._OF_ATTENTION)
    others = [name for name in rest if name not in metrics]
    groups = {**GROUPS, "Metrics of attention": metrics, "More": others}
    lines = [
        "# API",
        "",
        "What `import nearsight as ns` offers. This page is made from the docstrings by "
        "`python docs/make_api.py`.",
    ]
    for title, names in groups.items():
        lines += ["", f"## {title}"]
        for name in names:
            lines += ["", *entry(name)]
    return "\n".join(lines) + "\n"


def entry(name: str) -> list[str]:
    """Return the heading, signature and docstring of one name."""
    found: Any = getattr(ns, name)
    if isinstance(found, ModuleType):
        found = getattr(found, name)  # a room that can be called like its function
    text = inspect.getdoc(found) or ""
    told = "" if inspect.isclass(found) else signature(found)
    return [f"### `ns.{name}`", "", *_code(f"ns.{name}{told}"), "", *_prose(text)]


def signature(function: Any) -> str:
    """Return the parameters, one per line where they are many, without modules of types."""
    found = inspect.signature(function)
    parameters = [_parameter(x) for x in found.parameters.values()]
    if sum(map(len, parameters)) < 70:
        return f"({', '.join(parameters)})"
    return "(\n    " + ",\n    ".join(parameters) + ",\n)"


def _parameter(given: inspect.Parameter) -> str:
    """Return a parameter as its module writes it."""
    annotation = given.annotation
    star = {given.VAR_POSITIONAL: "*", given.VAR_KEYWORD: "**"}.get(given.kind, "")
    kind = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", "Any")
    default = "" if given.default is given.empty else f" = {given.default!r}"
    return f"{star}{given.name}: {kind}{default}"


def _code(text: str) -> list[str]:
    return ["```python", text, "```"]


def _prose(text: str) -> list[str]:
    """Return the docstring as Markdown: sections as lists, doctests as code."""
    lines: list[str] = []
    for block in text.split("\n\n"):
        first = block.lstrip().split("\n", 1)[0]
        if re.match(r"(Args|Returns|Raises):$", first):
            lines += [*_section(block), ""]
        elif ">>>" in block:
            example = textwrap.dedent(re.sub(r"^Examples?:\n", "", block))
            lines += ["```pycon", example.strip("\n"), "```", ""]
        else:
            lines += [block.replace("``", "`"), ""]
    return lines[:-1]


def _section(block: str) -> list[str]:
    """Return ``Args:`` or ``Raises:`` as a list with one item per name, ``Returns:`` as a line."""
    title, *body = block.replace("``", "`").strip("\n").split("\n")
    items: list[str] = []
    for line in textwrap.dedent("\n".join(body)).split("\n"):
        if line.startswith(" ") and items:
            items[-1] += " " + line.strip()
        else:
            items.append(line.strip())
    if title == "Returns:":
        return [f"**Returns:** {' '.join(items)}"]
    named = [re.sub(r"^(\*{0,2}\w+):", r"`\1`:", item) for item in items]
    return [f"**{title}**", "", *(f"- {item}" for item in named)]


if __name__ == "__main__":
    PAGE.write_text(api_page())
    print(PAGE)
