"""Does the effect of the protocol on locality depend on the depth and the width of the ViT?

The study crosses depth, width and protocol on CIFAR-100. The outlook of the protocol paper asks for
larger ViTs. Figures and tables give the effect of Modern in every size.
Command: nearsight study run depth-width --scale laptop --workers 2 --out studies-out/depth-width
Hardware: laptop: 2 cores, no GPU. paper: a GPU per cell
Time: laptop: 24 cells, about 6.5 core-hours. paper: 54 cells, about 6.7 GPU-hours at 100 TFLOP/s
Expected: not in the papers, which have one size
Laptop: 2 and 4 layers, 64 and 128 wide, 4x4 patches, 24 epochs. It cannot show what happens on
  8x8 patches after hundreds of epochs
"""

from __future__ import annotations

from dataclasses import replace

from nearsight.protocol import Protocol, preset
from nearsight.study.design import PrimaryContrast, Scale, Study, cross_factors, shrink

SIZES = {"laptop": ((2, 4), (64, 128)), "paper": ((4, 8, 12), (96, 192, 384))}


def study(scale: Scale) -> Study:
    def chosen(depth: int, width: int, protocol: str) -> Protocol:
        whole = preset(protocol, "cifar100")
        small = shrink(whole) if scale == "laptop" else whole
        return replace(small, model=replace(small.model, depth=depth, width=width))

    depths, widths = SIZES[scale]
    factors = {"depth": depths, "width": widths, "protocol": ("baseline", "modern")}
    return Study(
        cross_factors(factors, chosen),
        primary=PrimaryContrast("min_mad", {"protocol": "modern"}, {"protocol": "baseline"}),
    )
