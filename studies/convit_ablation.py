"""What of a ConViT helps: the gates, the convolutional start, how many layers, how strong?

Rows a to g of the ConViT paper's table 3, PSA, the number of GPSA layers and the locality strength
of its figure 8, with the compact ConViT by the DeiT recipe on CIFAR-100.
Command: nearsight study run convit-ablation --workers 2 --out studies-out/convit
Hardware: a GPU per cell; a core does 25 images/s of 12 million
Time: not run here at this scale; `study plan` calibrates it
Expected: table 3 (ConViT-S+ on 100 classes of ImageNet, one seed): a 82.2, b 82.0, c 81.4, d 81.6,
  e 79.1, f 78.6, g 73.7 %; accuracy grows with layers and strength
"""

from __future__ import annotations

from nearsight.protocol import preset
from nearsight.study.design import Condition, PrimaryContrast, Study

ROWS = (
    "convit", "convit-gates", "convit-convolution", "convit-gates-convolution", "convit-gpsa",
    "convit-attention", "convit-attention-convolution", "convit+psa",
)  # fmt: skip
LAYERS = (2, 4, 8)  # 6 is convit, 0 is convit-gpsa
STRENGTHS = (0.5, 2, 4)  # 1 is convit


PRIMARY = PrimaryContrast("accuracy", {"variant": "convit"}, {"variant": "convit-gpsa"})


def study() -> Study:
    names = (
        *ROWS,
        *(f"convit+layers={num}" for num in LAYERS),
        *(f"convit+strength={strength:g}" for strength in STRENGTHS),
    )
    return Study(
        tuple(Condition({"variant": x}, preset(x, "cifar100")) for x in names), primary=PRIMARY
    )
