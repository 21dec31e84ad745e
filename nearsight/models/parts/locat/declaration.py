"""LocAt, declared as a part: Gaussian-augmented attention and patch refinement."""

from __future__ import annotations

from typing import Any

from torch import nn

from nearsight.models.layers import SeparableBias
from nearsight.models.parts.locat.gaussian import Gaussian
from nearsight.models.parts.locat.locat import has_locat
from nearsight.models.parts.locat.refinement import Refine
from nearsight.models.parts.locat.widths import WidthReadOut
from nearsight.models.parts.part import CostCounts, CostHook, CostText, Part


class KernelCost(CostHook):
    """Counts the element-wise work of the Gaussian kernel."""

    def enter(self, counts: CostCounts) -> None:
        counts.elementwise = True

    def leave(self, counts: CostCounts, args: tuple[Any, ...], output: Any) -> None:
        """After the factors come their product, one per pair of patches, and its addition."""
        counts.elementwise = False
        if isinstance(output, SeparableBias):
            counts.kernel_operations += 2 * output.rows.numel() * output.cols.shape[-1]
        else:
            counts.kernel_operations += output.numel()


class RefineCost(CostHook):
    """Counts the rows of refinement that no head reads, which are not computed."""

    def __init__(self) -> None:
        self.before = 0

    def enter(self, counts: CostCounts) -> None:
        self.before = counts.macs

    def leave(self, counts: CostCounts, args: tuple[Any, ...], output: Any) -> None:
        (x,) = args
        whole = 2 * len(x) * x.shape[1:-1].numel() ** 2 * x.shape[-1]
        counts.skipped_macs += whole - (counts.macs - self.before)


def title_in(model: nn.Module) -> str | None:
    return "LocAt" if has_locat(model) else None


LOCAT_PART = Part(
    name="locat",
    titles=("LocAt",),
    title_in=title_in,
    without={"locat": {"gaussian": False, "refine": False}},
    options=("gaussian", "refine"),
    costs={Gaussian: KernelCost, Refine: RefineCost},
    cost_rows={"kernel_operations": "Gaussian kernel"},
    cost_text=CostText(
        paper_unit=", PRR for all tokens",
        flops=", and the Gaussian kernel's element-wise work; of PRR what the head reads",
    ),
    read_out=WidthReadOut,
)
