"""Write the table of the models that were tried to docs/families.md."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from nearsight.measure.coverage.attempt import ModelRow

BEGIN = "<!-- coverage: written by nearsight models coverage -->"
END = "<!-- end of coverage -->"
OUTCOMES = ("measured", "refused", "crashed", "not built")


def write_page(path: Path, rows: Sequence[ModelRow]) -> None:
    """Replace the coverage table of a page, or add it at the end if there is none."""
    text = path.read_text() if path.exists() else ""
    before, _, rest = text.partition(BEGIN)
    after = rest.partition(END)[2]
    path.write_text(
        f"{before.rstrip()}\n\n{BEGIN}\n\n{coverage_table(rows)}\n{END}{after or chr(10)}"
    )


def coverage_table(rows: Sequence[ModelRow]) -> str:
    """Return a table with a row per model, after a sentence with the counts."""
    counts = {x: sum(row.outcome == x for row in rows) for x in OUTCOMES}
    unbuilt = f", {counts['not built']} not built" if counts["not built"] else ""
    lines = [
        "## Every model file that was tried",
        "",
        f"{len(rows)} models with random weights, on the smallest image that each takes: "
        f"{counts['measured']} measured, {counts['refused']} refused, "
        f"{counts['crashed']} crashed{unbuilt}. The proof error is that of attention times values "
        "against the layer's own output, relative to its largest entry. The gap is the smallest "
        "one between neighbouring rows or columns, in cells, of the layers whose places were "
        "found by measuring ([places](places.md)); a model without one is in the table above or "
        "declares its tokens itself.",
        "",
        "| model | outcome | image | layers | proof error | gap | reason |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for row in rows:
        proof = "" if row.proof_error is None else f"{row.proof_error:.1e}"
        gap = "" if row.gap is None else f"{row.gap:.2f}"
        reason = row.reason.replace("|", "\\|").replace("\n", " ")
        side = "" if row.image_side is None else str(row.image_side)
        layers = str(row.num_layers) if row.num_layers else ""
        cells = (f"`{row.model}`", row.outcome, side, layers, proof, gap, reason)
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"
