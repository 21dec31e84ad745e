"""The table of supported families in docs/families.md, from the cases that the tests run over.

PYTHONPATH=tests python -m measure.layout.families_table --write
"""

import sys
from pathlib import Path

from measure.layout import (
    families_convit,
    families_found,
    families_global,
    families_hierarchical,
    families_libraries,
    families_locat,
)
from measure.layout.families_refused import REFUSED

from nearsight.measure.coverage.coverage_page import BEGIN

PARTS = (
    families_global,
    families_locat,
    families_convit,
    families_hierarchical,
    families_libraries,
)
LISTED = sorted(
    (case for part in PARTS for case in part.CASES), key=lambda x: x.library != "nearsight"
)
CASES = [*LISTED, *families_found.CASES]
PAGE = Path(__file__).resolve().parents[3] / "docs" / "families.md"

OPENING = """\
# Which models can be measured

Written by `PYTHONPATH=tests python -m measure.layout.families_table --write` from the list that the
tests run over; a family is in the table only if a test with a known answer passes for it.

- **own weights**: the model's own unfused attention, put on the image by plain loops, gives the
  same mean attention distance to 1e-6, for every image, head and layer of a toy.
- **closed form**: a layer made positional (queries and keys zero) has the distance worked out on
  paper; for windows with a bias at one offset, shifts, padding and a non-square image; for LocAt
  with Gaussians of one known width and strength; for ConViT with known positions and gates.

A layer's grid is that of the images it really got. Distances are in patches of the layer's own
grid, and grid diagonals are that grid's. Grid and number of prefix tokens are found; give `grid=`
and `num_prefix=` where they cannot be. Where the tokens of a model that is not listed sit is
measured on the model itself ([places](places.md)), and every layer's result says so; a layer whose
places are not clear is left out by name, never guessed. `nearsight models coverage --out DIR` tries
one model of every file of timm, torchvision and Hugging Face.
"""

FOUND = """\
## Found by measuring, and tested the same way

No table lists these families. Their places are measured on the model ([places](places.md)). The
model's own unfused attention, put on the image by plain loops, gives the same attention maps and
the same mean attention distance to 1e-6.
"""

POOLED = """\
## Where a pooled cell sits

At the centre of the positions that its kernel covers, padding included: with kernel k, stride s
and padding p, cell j is at j s + (k - 1) / 2 - p. PVT's cells (kernel = stride, no padding) lie
between patches. MViT's (kernel 3, padding 1) lie on every s-th patch, as its own relative
positions count them. Hiera's pooled queries lie between the 2x2 keys they are the maximum of.
"""


def row(*cells):
    return f"| {' | '.join(cells)} |"


def page():
    lines = [
        OPENING,
        row("from", "family", "example", "where tokens sit", "tested against", "notes"),
    ]
    lines.append(row(*["---"] * 6))
    for case in LISTED:
        tested = "own weights, closed form" if case.closed_form else "own weights"
        said = f"`{case.example}`", case.sits, tested, case.notes
        lines.append(row(case.library, case.family, *said))
    lines += ["", FOUND, row("from", "family", "example", "where tokens sit", "notes")]
    lines.append(row(*["---"] * 5))
    for case in families_found.CASES:
        lines.append(row(case.library, case.family, f"`{case.example}`", case.sits, case.notes))
    lines += ["", POOLED, "## Refused, with the reason", "", row("family", "example", "reason")]
    lines.append(row(*["---"] * 3))
    lines += [row(case.family, f"`{case.example}`", case.reason) for case in REFUSED]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    if sys.argv[1:] != ["--write"]:
        sys.exit("usage: PYTHONPATH=tests python -m measure.layout.families_table --write")
    _, mark, coverage = PAGE.read_text().partition(BEGIN)
    PAGE.write_text(page() + (f"\n{mark}{coverage}" if mark else ""))
