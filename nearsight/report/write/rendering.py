"""Fill in the Jinja templates in ``report/templates``, with all text escaped."""

from __future__ import annotations

from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from nearsight.core import printable


def render(name: str, **values: Any) -> str:
    """Fill in a template.

    Args:
        name: File in ``report/templates``.
        values: What the template may use. Text is escaped unless it is ``markupsafe.Markup``.

    Returns:
        The HTML, with control characters replaced, which HTML does not allow.
    """
    return printable(_environment().get_template(name).render(values))


@cache
def _environment() -> Environment:
    return Environment(
        loader=PackageLoader("nearsight.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
