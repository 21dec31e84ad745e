"""The explorer inside a report: the examples of its runs, small enough for a page to be sent."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from nearsight.core import UserError
from nearsight.explore.exploration import Exploration
from nearsight.explore.profiles import name_profiles, profile_families
from nearsight.explore.shown_model import ShownModel, subject_of_files
from nearsight.explore.targets import told_apart
from nearsight.measure.profile import Profile
from nearsight.report.read import Family, read_families
from nearsight.report.write import check_page_name, write_families

MOST_BYTES = 12_000_000  # of attention in a report
MOST_MODELS = 8


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
    if any(isinstance(each, Profile) for each in given):
        if not all(isinstance(each, Profile) for each in given):
            raise UserError(
                "a report is of profiles or of run folders, but both were given; write one of each"
            )
        named = name_profiles(runs)  # type: ignore[arg-type]
        return write_families(profile_families(named), Path(out), formats)
    families = read_families([Path(each) for each in given])  # type: ignore[arg-type]
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
    shown = [subject for subject in subjects if subject.examples is not None][:MOST_MODELS]
    if not shown:
        return None
    return Exploration("Attention", told_apart(_within(shown, MOST_BYTES)))


def _within(subjects: Sequence[ShownModel], most: int) -> list[ShownModel]:
    """Leave out images, the last ones first, and then models, until the rest is small enough."""
    for num_images in (4, 3, 2, 1):
        cut = [_with_images(subject, num_images) for subject in subjects]
        if sum(map(_size, cut)) <= most:
            return cut
    kept = [_with_images(subject, 1) for subject in subjects]
    while len(kept) > 1 and sum(map(_size, kept)) > most:
        kept.pop()
    return kept


def _with_images(subject: ShownModel, num: int) -> ShownModel:
    assert subject.examples is not None
    images = subject.examples["images"][:num]
    return replace(subject, examples={**subject.examples, "images": images})


def _size(subject: ShownModel) -> int:
    assert subject.examples is not None
    return len(json.dumps(subject.examples["images"]))
