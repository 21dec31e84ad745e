"""Show studies as pages and tables, and export them for publication."""

from __future__ import annotations

from nearsight.study.show.causal_table import print_causal, print_causal_study
from nearsight.study.show.paper_list import (
    CORE_GFLOPS,
    cost_text,
    papers_json,
    papers_page,
    print_papers,
)
from nearsight.study.show.publish import Publication, publish_study
from nearsight.study.show.result_tables import print_results
from nearsight.study.show.study_page import study_report, write_page
from nearsight.study.show.study_tables import (
    costs_json,
    print_costs,
    print_plan,
    print_recipes,
    print_status,
    print_verdicts,
    status_json,
)

__all__ = [
    "CORE_GFLOPS",
    "Publication",
    "cost_text",
    "costs_json",
    "papers_json",
    "papers_page",
    "print_causal",
    "print_causal_study",
    "print_costs",
    "print_papers",
    "print_plan",
    "print_recipes",
    "print_results",
    "print_status",
    "print_verdicts",
    "publish_study",
    "status_json",
    "study_report",
    "write_page",
]
