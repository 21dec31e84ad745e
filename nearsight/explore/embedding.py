"""The explorer inside a report: the examples of its runs, small enough for a page to be sent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from nearsight.core import UserError
from nearsight.explore.exploration import Exploration
from nearsight.explore.shown_model import fit_page, subject_of_files
from nearsight.explore.targets import told_apart
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

    Profiles of one's own models, which ``measure_model`` returns, make a report too. It has no
    explorer, since a profile holds no attention rows.

    The explorer shows the example images that ``nearsight measure`` kept of the first run of every
    condition; where no run has any, the report has no explorer.

    Args:
        runs: measured run folders; or profiles, by name where they are a dictionary.
        out: the HTML file to write.
        formats: svg, png, pdf, csv, json and latex also go into the folder ``<out stem>-files``.

    Returns:
        The path of the page.
    """
    check_page_name(Path(out))
    given = list(runs.values() if isinstance(runs, Mapping) else runs)
    folders = [Path(each) for each in given if isinstance(each, (str, Path))]
    if len(folders) < len(given):
        from nearsight.explore.profiles import name_profiles, profile_families  # loads torch

        if folders:
            raise UserError(
                "a report is of profiles or of run folders, but both were given; write one of each"
            )
        named = name_profiles(runs)  # type: ignore[arg-type]
        return write_families(profile_families(named), Path(out), formats)
    families = read_families(folders)
    return write_families(families, Path(out), formats, explorer=explorer_frame(families))


def explorer_frame(families: Sequence[Family]) -> str:
    """Return the explorer of a report's runs as HTML, empty where no run has examples."""
    found = embedded_explorer(families)
    return found.frame() if found else ""


def embedded_explorer(families: Sequence[Family]) -> Exploration | None:
    """Return the explorer of the first run of every condition; None where none has examples.

    Where all images would make the page too large, fewer of each model are shown, and fewer models.
    """
    firsts = [condition.runs[0] for family in families for condition in family.conditions]
    subjects = [subject_of_files(run.files) for run in firsts]
    shown = [subject for subject in subjects if subject.examples is not None]
    return Exploration("Attention", told_apart(fit_page(shown))) if shown else None
