"""Do the strength of locality and the number of GPSA layers help on their own, or only together?

The conditions are a grid of locality strengths and numbers of GPSA layers, and a plain ViT. Figure
8 of the ConViT paper shows the final accuracy of the grid (a) and the gain of GPSA layers by epoch
(b), without an interaction and without intervals.
Command: nearsight study run convit-grid --scale laptop --workers 2 --out studies-out/convit-grid
Hardware: laptop: 2 cores, no GPU. paper: a GPU per cell
Time: laptop: 30 cells, about 1.6 core-hours. paper: 30 cells, about 170 GPU-hours at 100 TFLOP/s
Expected: the paper (ConViT-S+ on 100 classes of ImageNet, 300 epochs, one seed): accuracy grows
  with both; after 20 epochs 9 GPSA layers almost double it
  results/convit-grid (laptop, 3 seeds): -0.72 points per GPSA layer (-1.01 to -0.43), +0.03 per
  unit of strength (-0.07 to +0.13), interaction -0.03 (-0.24 to +0.18)
Laptop: `nano` (4 layers, 8x8 patches) on a fifth of CIFAR-100, 5 epochs of 8,000 images by
  Baseline; 1, 2 and 3 of 4 layers stand for 3, 6 and 9 of 12. It shows the first minutes of
  training. It cannot show final accuracy, a kernel larger than 2x2, 224 pixels, or the effect of
  the DeiT recipe
"""

from __future__ import annotations

from dataclasses import replace

from nearsight.protocol import GpsaSettings, Protocol, preset
from nearsight.study.design import Condition, PrimaryContrast, Scale, Study, cross_factors, shorten

STRENGTHS = (0.5, 1.0, 2.0)
LAYERS = {"laptop": (1, 2, 3), "paper": (3, 6, 9)}  # the same shares of 4 and of 12 layers
SETTINGS = {"measure": {"num_images": 1000}}


def study(scale: Scale) -> Study:
    convit = preset("convit", "imagenet-100", "convit_small_plus")
    plus = preset("deit_plus", "imagenet-100")  # the rate and batch of the models with a +
    convit = replace(convit, optimizer=plus.optimizer, batch_size=plus.batch_size)

    def protocol(strength: float, layers: int) -> Protocol:
        gpsa = GpsaSettings(strength=strength, layers=layers)
        chosen = replace(convit, model=replace(convit.model, gpsa=gpsa))
        return shorten(chosen, "nano_convit") if scale == "laptop" else chosen

    few, _, many = LAYERS[scale]
    plain = Condition({"strength": 1.0, "layers": 0}, protocol(1.0, 0))
    grid = cross_factors({"strength": STRENGTHS, "layers": LAYERS[scale]}, protocol)
    return Study(
        (plain, *grid),
        settings=SETTINGS if scale == "laptop" else {},
        primary=PrimaryContrast("accuracy", {"layers": many}, {"layers": few}),
    )
