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

`PYTHONPATH=tests python -m measure.layout.families_table --write` writes this table from the list
of families that the tests run over. A family is in the table only if at least one of these tests
with a known answer passes for a small model of it:

- **own weights**: the model's own unfused attention weights are put on the image by plain loops.
  They give the same mean attention distance to 1e-6, for every image, head and layer.
- **closed form**: queries and keys are set to zero, so that attention depends on position alone,
  and the mean attention distance is worked out on paper. For windows this is tested with a bias at
  one offset, shifts, padding and a non-square image; for LocAt with Gaussians of known width and
  strength; for ConViT with known positions and gates.

The grid of a layer is that of the images that it really got, and its distances are in patches or
diagonals of this grid. nearsight finds the grid and the number of prefix tokens; if it cannot, give
`grid=` and `num_prefix=`. If a model is not listed, nearsight measures on the model itself where
its tokens sit ([places](places.md)), and the result of every layer says so. A layer whose positions
are not clear is left out and named, never guessed. `nearsight models coverage --out DIR` tries one
model of every model file of timm, torchvision and Hugging Face.
"""

FOUND = """\
## Found by measuring, and tested the same way

No table in the code lists these families: nearsight measures on the model where their tokens sit
([places](places.md)). The model's own unfused attention weights, put on the image by plain loops,
give the same attention maps and the same mean attention distance to 1e-6.
"""

POOLED = """\
## Where a pooled cell sits

A pooled cell sits at the centre of the positions that its kernel covers, padding included: with
kernel k, stride s and padding p, cell j is at j s + (k - 1) / 2 - p. The cells of PVT (kernel =
stride, no padding) lie between patches. Those of MViT (kernel 3, padding 1) lie on every s-th
patch, which agrees with MViT's own relative positions. The pooled queries of Hiera lie between the
2x2 keys of which they are the maximum.
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
