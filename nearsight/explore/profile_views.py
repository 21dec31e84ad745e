"""Show a profile as text, in a notebook, as a pandas table, as a figure, or in a report.

A profile is converted in memory to the records that ``nearsight measure`` writes. The tables and
figures are made from these records, so that a user's own model looks like every other.
"""

from __future__ import annotations

import html
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from nearsight.core import Screen, UserError, printable, suggestion
from nearsight.measure.folders import measurement
from nearsight.report.figures.drawing import Drawing, panel_svgs, plain_figure
from nearsight.report.figures.heads import depth_profiles, head_heatmaps, mad_entropy_plane
from nearsight.report.figures.maps import draw_maps
from nearsight.report.read import Family, evidence_of, grouped_families
from nearsight.report.write import print_folders, terminal_table
from nearsight.runs import MeasuredFolder
from nearsight.runs.records import MEASURE_FILE, RUN_FILE

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from nearsight.measure.maps import AttentionMaps
    from nearsight.measure.profile import Profile

KINDS = {"depth": depth_profiles, "plane": mad_entropy_plane, "heads": head_heatmaps}
IMAGES = "the images given"
TEXT_WIDTH = 80
TABLE_STYLE = (  # notebooks align all cells to the right
    "<style>.nearsight-profile th:first-child, .nearsight-profile td:last-child "
    "{ text-align: left !important }</style>"
)
MOST_COLUMNS = 4  # a metric with more numbers per head than this is left out of tables


def profile_files(profile: Profile, name: str | None = None) -> MeasuredFolder:
    """Return the records of a profile, as if it had been measured into a folder.

    Raises:
        UserError: If the profile is of one image, which gives no intervals.
    """
    if profile.num_images < 2:
        raise UserError(
            "this profile is of one image, but intervals need at least 2; measure more images"
        )
    title = name or profile.name or "model"
    record = {
        "schema_version": 1,
        "kind": "model",
        "status": "measured",
        "model": {"name": title, "source": "python", "num_parameters": profile.num_parameters},
        "weights": {"from": "memory"},
        "data": {
            "name": IMAGES,
            "hash": f"{profile.num_images} images",
            "origin": "memory",
            "num_images": profile.num_images,
            "num_available": profile.num_images,
        },
        "preprocessing": {"text": "none by nearsight", "mean": (0.0,) * 3, "std": (1.0,) * 3},
    }
    data = {"name": IMAGES, "hash": f"{profile.num_images} images"}
    measured = measurement(profile) | {"data": data, "seconds": profile.seconds}
    return MeasuredFolder(Path(title), RUN_FILE.record(record), MEASURE_FILE.record(measured), [])


def profile_families(profiles: Mapping[str, Profile]) -> list[Family]:
    """Convert profiles, given by the names of their models, to the families of a report."""
    files = [profile_files(profile, name) for name, profile in profiles.items()]
    return grouped_families([evidence_of(each) for each in files])


def name_profiles(profiles: Mapping[str, Profile] | Sequence[Profile]) -> dict[str, Profile]:
    """Return profiles by the names of their models, with numbers added to equal names."""
    if isinstance(profiles, Mapping):
        return dict(profiles)
    names = [profile.name or "model" for profile in profiles]
    if len(set(names)) < len(names):
        names = [f"{name} {number}" for number, name in enumerate(names, 1)]
    return dict(zip(names, profiles))


def profile_text(profile: Profile) -> str:
    """Return the table that a terminal shows, at most 80 columns wide."""
    if profile.num_images < 2:
        return facts_text(profile)
    screen = Screen(
        width=TEXT_WIDTH, highlight=False, record=True, file=io.StringIO(),
        force_jupyter=False,  # otherwise rich shows every line in the notebook as well
    )  # fmt: skip
    print_folders([profile_files(profile)], screen)
    return screen.export_text().rstrip()


def profile_html(profile: Profile) -> str:
    """Return a table and a small figure for a notebook."""
    if profile.num_images < 2:
        return f"<p>{html.escape(printable(facts_text(profile)))}</p>"
    files = profile_files(profile)
    table = terminal_table([files.measure], [files.record]).html()
    parts = [f'{TABLE_STYLE}<div class="nearsight-profile">{table}</div>']
    if not _problem(profile):
        svgs = panel_svgs(_drawing(profile, "depth"))
        figure = "".join(f'<div style="max-width:24em">{svg}</div>' for svg in svgs)
        parts.append(f'<div style="display:flex;flex-wrap:wrap;gap:1em">{figure}</div>')
    parts.append(f"<p>{html.escape(printable(facts_text(profile)))}</p>")
    return "".join(parts)


def facts_text(profile: Profile) -> str:
    """Say in a sentence what was measured."""
    grids = ", ".join(dict.fromkeys(str(layer.grid) for layer in profile.layers))
    images = f"{profile.num_images:,} image{'s' * (profile.num_images != 1)}"
    lone = "" if profile.num_images > 1 else " (too few for intervals)"
    return (
        f"{profile.name or 'Profile'}: {len(profile.layers)} layers, "
        f"{sum(layer.num_heads for layer in profile.layers)} heads, {grids} patches, "
        f"{images}{lone}; measured: {', '.join(profile.metrics)}."
    )


def profile_frame(profile: Profile) -> Any:
    """Return a pandas table with a row per head."""
    try:
        import pandas as pd
    except ImportError:
        raise UserError(
            "to_pandas() needs pandas, which is not installed; run pip install pandas"
        ) from None
    rows = []
    names = profile.head_names if profile.position_share is not None else None
    for layer, facts in enumerate(profile.layers):
        for head in range(facts.num_heads):
            row: dict[str, Any] = {"layer": layer + 1, "head": head + 1}
            if names is not None and profile.position_share is not None:
                row |= {"name": names[layer][head]}
                row |= {"position_share": float(profile.position_share[layer][head])}
            for name, estimates in profile.metrics.items():
                for suffix, part in (("", "mean"), ("_low", "low"), ("_high", "high")):
                    values = np.asarray(getattr(estimates, part)[layer])
                    row |= _cells(f"{name}", suffix, values, head)
            rows.append(row)
    return pd.DataFrame(rows).set_index(["layer", "head"])


def _cells(name: str, suffix: str, values: np.ndarray, head: int) -> dict[str, float]:
    """Return the columns of one head's metric: one or a few, or none if it has many numbers."""
    own = values if not values.ndim else values[head]
    if not own.ndim:
        return {f"{name}{suffix}": float(own)}
    if own.size > MOST_COLUMNS:
        return {}
    return {f"{name}_{number}{suffix}": float(x) for number, x in enumerate(own.flat, 1)}


def profile_figure(profile: Profile, kind: str = "depth") -> Figure:
    """Return a figure of the profile.

    Args:
        profile: The profile.
        kind: "depth" (MAD and entropy by layer), "plane" (every head by MAD and entropy) or "heads"
            (heatmaps of all heads).

    Raises:
        UserError: If there is no such figure, or the profile lacks what it needs.
    """
    if kind not in KINDS:
        raise UserError(
            f"there is no figure {kind!r}; use plot({' or '.join(map(repr, KINDS))})"
            f"{suggestion(kind, KINDS)}"
        )
    if problem := _problem(profile):
        raise UserError(problem)
    return plain_figure(_drawing(profile, kind))


def maps_figure(maps: AttentionMaps, image: np.ndarray | None = None) -> Figure:
    """Return a figure of attention maps, drawn over ``image`` or over grey."""
    from matplotlib import pyplot

    from nearsight.measure.maps import TargetMaps

    assert pyplot  # its import tells notebooks how to show a figure
    shape = (8 * maps.grid.rows, 8 * maps.grid.cols, 3)
    pixels = np.full(shape, 235, np.uint8) if image is None else np.asarray(image, np.uint8)
    if pixels.ndim != 3 or pixels.shape[-1] != 3:
        raise UserError(f"image has the shape {pixels.shape}, but it must be [height, width, 3]")
    return draw_maps([TargetMaps(maps.layer_name, pixels, (maps,))], "given in Python")


def _problem(profile: Profile) -> str:
    """Say why there is no figure of this profile; empty if there is one."""
    if profile.convention.name != "paper":
        return (
            f"the distances of this profile are in the convention {profile.convention.name}, but "
            'figures need the convention paper; use profile.in_convention("paper")'
        )
    missing = [name for name in ("mad", "entropy", "self_mass") if name not in profile.metrics]
    if missing:
        return (
            f"the profile lacks {', '.join(missing)}, which figures need; measure with "
            "metrics='default' or 'all'"
        )
    return ""


def _drawing(profile: Profile, kind: str) -> Drawing:
    (family,) = profile_families({profile.name or "model": profile})
    return KINDS[kind](family, f"profile-{kind}", f"{family.name} · {family.scope_text}")
