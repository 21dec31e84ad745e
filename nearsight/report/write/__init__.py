"""Write reports: the HTML page, tables as files, and tables for the terminal."""

from __future__ import annotations

from nearsight.report.write.answer import effect_sentence
from nearsight.report.write.cells import Cell, Kind, Marked, NumberStyle
from nearsight.report.write.changes import print_difference
from nearsight.report.write.evaluation_tables import (
    evaluation_tables,
    print_evaluations,
    write_evaluation_figures,
)
from nearsight.report.write.front import Chapter, Front
from nearsight.report.write.page import check_page_name, write_families
from nearsight.report.write.table import FORMATS, Column, Format, Row, Table
from nearsight.report.write.terminal_table import print_folders, print_measurements, terminal_table

__all__ = [
    "FORMATS",
    "Cell",
    "Chapter",
    "Column",
    "Format",
    "Front",
    "Kind",
    "Marked",
    "NumberStyle",
    "Row",
    "Table",
    "check_page_name",
    "effect_sentence",
    "evaluation_tables",
    "print_difference",
    "print_evaluations",
    "print_folders",
    "print_measurements",
    "terminal_table",
    "write_evaluation_figures",
    "write_families",
]
