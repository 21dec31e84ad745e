"""The claims of the three papers, and the verdicts of a study on them (claims.json).

>>> from nearsight.study.claims.all_claims import CLAIMS, claim
>>> claim("convit-data").source
"ConViT, table 2 (figure 11's caption says the opposite)"
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from nearsight.core import UserError, suggestion
from nearsight.runs import SCHEMA_VERSION, write_json
from nearsight.study.analyse import Outcome, outcomes
from nearsight.study.claims.claim import Claim
from nearsight.study.claims.convit_claims import CONVIT_CLAIMS
from nearsight.study.claims.locat_claims import LOCAT_CLAIMS
from nearsight.study.claims.protocol_claims import PROTOCOL_CLAIMS
from nearsight.study.claims.verdict import Verdict, judge

CLAIMS: tuple[Claim, ...] = (*PROTOCOL_CLAIMS, *LOCAT_CLAIMS, *CONVIT_CLAIMS)
CLAIMS_FILE = "claims.json"


def claim(id: str) -> Claim:
    """The claim of an id."""
    known = {each.id: each for each in CLAIMS}
    if id not in known:
        hint = suggestion(id, known, most=2)
        raise UserError(f"expected a claim of {', '.join(known)}, got {id!r}{hint}")
    return known[id]


def verdicts(outcomes: Sequence[Outcome], claims: Sequence[Claim] = CLAIMS) -> list[Verdict]:
    """Of every claim: one verdict per setting in which it can be asked, at least one."""
    return [verdict for each in claims for verdict in judge(each, outcomes)]


def write_claims(out: Path) -> tuple[Path, list[Verdict]]:
    """Judge the papers' claims by what is finished; claims.json, and the verdicts."""
    found = verdicts(outcomes(out))
    path = Path(out) / CLAIMS_FILE
    judged = [verdict.contents() for verdict in found]
    write_json(path, {"schema_version": SCHEMA_VERSION, "verdicts": judged})
    return path, found
