"""Embed the explorer in a report, with as many example images as fit into a moderate page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from nearsight.core import UserError
from nearsight.explore.exploration import Exploration
from nearsight.explore.shown_model import fit_page, subject_of_files
from nearsight.explore.targets import number_equal_names
from nearsight.report.read import Family, read_families
from nearsight.report.write import check_page_name, write_families

if TYPE_CHECKING:
    from nearsight.measure.profile import Profile


def write_report(
    runs: Sequence[str | Path | Profile] | Mapping[str, Profile],
    out: str | Path,
    formats: Sequence[str] = (),
) -> Path:
    """Write the report of measured run folders, with the attention explorer embedded.

    The explorer shows the example images that ``nearsight measure`` stored for the first run of
    each condition. The report has no explorer if no run has such examples, or if it is made from
    profiles, which do not contain the attention itself.

    Args:
        runs: Measured run folders; or profiles returned by ``measure_model``, as a list or as a
            dictionary that names them.
        out: The HTML file to write.
        formats: Also write the figures and tables in these formats to the folder
            ``<out stem>-files``: svg, png, pdf, csv, json, latex.

    Returns:
        The path of the page.

    >>> write_report(["runs/baseline-0", "runs/modern-0"], "report.html")  # doctest: +SKIP
    """
    check_page_name(Path(out))
    given = list(runs.values() if isinstance(runs, Mapping) else runs)
    folders = [Path(each) for each in given if isinstance(each, (str, Path))]
    if len(folders) < len(given):
        from nearsight.explore.profile_views import name_profiles, profile_families  # loads torch

        if folders:
            raise UserError(
                "a report cannot mix profiles and run folders; write one report for each"
            )
        named = name_profiles(runs)  # type: ignore[arg-type]
        return write_families(profile_families(named), Path(out), formats)
    families = read_families(folders)
    return write_families(families, Path(out), formats, explorer=explorer_frame(families))


def explorer_frame(families: Sequence[Family]) -> str:
    """Return the explorer of a report's runs as HTML, or an empty string if none has examples."""
    found = embedded_explorer(families)
    return found.frame() if found else ""


def embedded_explorer(families: Sequence[Family]) -> Exploration | None:
    """Return the explorer of the first run of each condition, or None if none has examples.

    If the page would become too large, it shows fewer images per model, and then fewer models.
    """
    firsts = [condition.runs[0] for family in families for condition in family.conditions]
    subjects = [subject_of_files(run.files) for run in firsts]
    shown = [subject for subject in subjects if subject.examples is not None]
    return Exploration("Attention", number_equal_names(fit_page(shown))) if shown else None
