"""How small a model and how short a training still shows what CutMix does to min MAD?

The study trains by Baseline with and without CutMix on CIFAR-100: at the scale of protocol-small (2
layers, 24 epochs), with 4 layers, and on a tenth of the images for 240 epochs, where Baseline
overfits as it does at the paper's scale. Attention is measured 12 times during training, which
shows how short a training is enough.
Command: nearsight study run smallest --workers 2 --out studies-out/smallest
  --reuse studies-out/small
Hardware: 2 cores, no GPU
Time: 45 minutes with the cells of protocol-small, else an hour
Expected: from results/smallest, CutMix on min MAD of tested weights with 2 layers +0.001 (-0.017
  to +0.019), with 4 +0.002 (-0.004 to +0.009), on a tenth of the images -0.008 (-0.033 to +0.016);
  at matched steps 0.000 (-0.024 to +0.025), -0.001 (-0.006 to +0.004), -0.011 (-0.019 to -0.002)
"""

from __future__ import annotations

from nearsight.protocol import Protocol, at_fraction
from nearsight.study.design import Condition, PrimaryContrast, Study, cutmix_off_and_on, shrink


def on_a_tenth(protocol: Protocol) -> Protocol:
    """Return the protocol on a tenth of the images, with equally many images seen."""
    return at_fraction(shrink(protocol), 0.1)


TENTH = "2 layers, a tenth of the images"
SCALES = {
    "2 layers": shrink,
    TENTH: on_a_tenth,
    "4 layers": lambda protocol: shrink(protocol, depth=4),
}


PRIMARY = PrimaryContrast(
    "min_mad", {"scale": TENTH, "cutmix": True}, {"scale": TENTH, "cutmix": False}
)


def study() -> Study:
    conditions = tuple(
        Condition({"scale": name, "cutmix": cutmix}, scaled(protocol))
        for name, scaled in SCALES.items()
        for cutmix, protocol in cutmix_off_and_on("cifar100")
    )
    return Study(conditions, num_seeds=3, primary=PRIMARY)
