"""Which figures a report shows of a family of runs or models, in their order."""

from __future__ import annotations

from nearsight.report.figures.drawing import Drawing
from nearsight.report.figures.heads.depth import depth_profiles
from nearsight.report.figures.heads.feature_locality import feature_depth
from nearsight.report.figures.heads.heatmaps import head_heatmaps
from nearsight.report.figures.heads.key_plane import key_plane
from nearsight.report.figures.heads.plane import mad_entropy_plane
from nearsight.report.figures.heads.profiles import mad_profiles
from nearsight.report.figures.heads.ranking import least_distances
from nearsight.report.figures.parts.gates import gate_depth, gate_training
from nearsight.report.figures.parts.widths import gaussian_depth
from nearsight.report.figures.study.causal_losses import causal_drawings
from nearsight.report.figures.training.curves import learning_curves
from nearsight.report.figures.training.emergence_dots import emergence
from nearsight.report.figures.training.locality import locality_curves
from nearsight.report.figures.training.nonlocality import nonlocality_training
from nearsight.report.figures.training.onset import onset_curves
from nearsight.report.figures.training.sample_efficiency import sample_efficiency
from nearsight.report.read.conditions import Family


def family_drawings(family: Family, families: list[Family]) -> list[Drawing]:
    """The figures of a family; their keys are told apart when there are several families."""
    number = "" if len(families) == 1 else f"-{families.index(family) + 1}"
    name, scope, seeds = family.name, family.scope_text, family.seeds_text
    subtitle = f"{name} · {scope} · patches only, rows renormalised, distance in grid diagonals"
    found = [
        sample_efficiency(
            family, f"sample-efficiency{number}", f"{name} · {seeds} · equally many images seen"
        ),
        least_distances(family, f"ranking{number}", subtitle),
        depth_profiles(family, f"depth{number}", subtitle),
        mad_profiles(family, f"mad-profiles{number}", subtitle),
        key_plane(family, f"key-plane{number}", subtitle),
        mad_entropy_plane(family, f"mad-entropy-plane{number}", subtitle),
        head_heatmaps(family, f"head-heatmaps{number}", subtitle),
        feature_depth(family, f"features{number}", f"{name} · {scope} · outputs of blocks"),
        gaussian_depth(
            family, f"gaussians{number}", f"{name} · {scope} · all heads, patches and both axes"
        ),
        gate_depth(family, f"gates{number}", name if family.is_models else f"{name} · {seeds}"),
    ]
    drawings = [drawing for drawing in found if drawing]
    if all(run.log for condition in family.conditions for run in condition.runs):
        drawings += _while_training(family, number)
    return [*drawings, *causal_drawings(family, f"causal{number}")]


def _while_training(family: Family, number: str) -> list[Drawing]:
    """What train.jsonl tells: curves of learning, of locality, and of gates."""
    validation = f"{family.first.record['data']['num_validation']:,} validation images"
    words = f"{family.name} · {validation} · {family.seeds_text}"
    looked = f"{family.name} · {family.seeds_text}"
    found = [
        learning_curves(family, f"learning-curves{number}", words),
        locality_curves(family, f"locality{number}", looked),
        emergence(family, f"emergence{number}", looked),
        onset_curves(family, f"onset{number}", looked),
        nonlocality_training(family, f"nonlocality{number}", looked),
    ]
    gates = gate_training(family, f"gates-training{number}", looked)
    return [*(drawing for drawing in found if drawing), *gates]
