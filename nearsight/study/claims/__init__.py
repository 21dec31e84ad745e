"""Compare a study with the claims of the papers: the claims, and a verdict on each."""

from __future__ import annotations

from nearsight.study.claims.all_claims import CLAIMS, write_claims
from nearsight.study.claims.paper_tables import PAPER_TABLE_1, PAPER_TABLE_2
from nearsight.study.claims.verdict import Finding, Verdict

__all__ = ["CLAIMS", "PAPER_TABLE_1", "PAPER_TABLE_2", "Finding", "Verdict", "write_claims"]
