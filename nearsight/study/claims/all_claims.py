"""List the claims of the three papers, and judge them by a study (claims.json).

>>> from nearsight.study.claims.all_claims import CLAIMS, claim
>>> claim("convit-data").source
"ConViT, table 2 (figure 11's caption says the opposite)"
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from nearsight.core import UserError, suggestion
from nearsight.runs import SCHEMA_VERSION
from nearsight.runs.records import CLAIMS_FILE
from nearsight.study.analyse import LoadedStudy, Outcome, outcomes
from nearsight.study.claims.claim import Claim
from nearsight.study.claims.convit_claims import CONVIT_CLAIMS
from nearsight.study.claims.convit_size_claims import CONVIT_SIZE_CLAIMS
from nearsight.study.claims.locat_backbone_claims import LOCAT_BACKBONE_CLAIMS
from nearsight.study.claims.locat_claims import LOCAT_CLAIMS
from nearsight.study.claims.protocol_claims import PROTOCOL_CLAIMS
from nearsight.study.claims.verdict import Verdict, judge

CLAIMS: tuple[Claim, ...] = (
    *PROTOCOL_CLAIMS,
    *LOCAT_CLAIMS,
    *LOCAT_BACKBONE_CLAIMS,
    *CONVIT_CLAIMS,
    *CONVIT_SIZE_CLAIMS,
)


def claim(id: str) -> Claim:
    """Return the claim with this id.

    Raises:
        UserError: If there is no such claim.
    """
    known = {each.id: each for each in CLAIMS}
    if id not in known:
        hint = suggestion(id, known, most=2)
        raise UserError(f"there is no claim {id!r}{hint}; the claims are {', '.join(known)}")
    return known[id]


def verdicts(outcomes: Sequence[Outcome], claims: Sequence[Claim] = CLAIMS) -> list[Verdict]:
    """Return the verdicts on all claims, at least one per claim."""
    return [verdict for each in claims for verdict in judge(each, outcomes)]


def write_claims(study: LoadedStudy) -> tuple[Path, list[Verdict]]:
    """Judge the claims by the finished cells, write claims.json, and return path and verdicts."""
    found = verdicts(outcomes(study))
    judged = [verdict.contents() for verdict in found]
    contents = {"schema_version": SCHEMA_VERSION, "verdicts": judged}
    return CLAIMS_FILE.write(study.path, contents), found
