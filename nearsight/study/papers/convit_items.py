"""List the tables and figures of ConViT, with the numbers that the paper prints."""

from __future__ import annotations

from functools import partial

from nearsight.study.papers.item import PaperItem, table_rows

of_paper = partial(PaperItem, paper="convit")
SIZES, GRID, ABLATION = "convit-sizes", "convit-grid", "convit-ablation"
MAPS = "nearsight maps RUN --image FILE --head all"

TABLE_1 = """
DeiT; Ti | 72.2
ConViT; Ti | 73.1
DeiT; Ti+ | 75.9
ConViT; Ti+ | 76.7
DeiT; S | 79.8
ConViT; S | 81.3
DeiT; S+ | 79.0
ConViT; S+ | 82.2
DeiT; B | 81.8
ConViT; B | 82.4
DeiT; B+ | 77.5
ConViT; B+ | 82.5
"""
TABLE_2 = """
plain; 0.05 | 34.8 57.8
convit; 0.05 | 47.8 70.7
plain; 0.1 | 48.0 71.5
convit; 0.1 | 59.6 80.3
plain; 0.3 | 66.1 86.0
convit; 0.3 | 73.7 90.7
plain; 0.5 | 74.6 91.8
convit; 0.5 | 78.2 93.8
plain; 1 | 79.9 95.0
convit; 1 | 81.4 95.8
"""
TABLE_3 = """
convit | 82.2
convit-gates | 82.0
convit-convolution | 81.4
convit-gates-convolution | 81.6
convit-gpsa | 79.1
convit-attention | 78.6
convit-attention-convolution | 73.7
"""
TABLE_4 = """
DeiT-S; off | 79.8
DeiT-S; on | 80.9
DeiT-B; off | 81.8
DeiT-B; on | 83.0
ConViT-S+; off | 82.2
ConViT-S+; on | 82.9
"""

CONVIT_ITEMS: tuple[PaperItem, ...] = (
    of_paper(label="figure 1", title="Soft and hard inductive biases", reason="an illustration"),
    of_paper(label="figure 2a", title="Sample efficiency", recipe="sample-efficiency",
             shown="figure: sample efficiency"),
    of_paper(label="figure 2b", title="Parameter efficiency: accuracy over parameters",
             recipe=SIZES, shown="figure: ConViT's figure 2b"),
    of_paper(label="figure 3", title="Maps of an untrained SA layer, and of PSA at two strengths",
             command="nearsight maps convit_small --random-init --image FILE --head all",
             reason="nothing is trained"),
    of_paper(label="figure 4", title="The architecture", reason="a diagram"),
    of_paper(label="table 1", title="DeiT and ConViT in six sizes: accuracy and speed",
             recipe=SIZES, command="python benchmarks/convit.py measures speed",
             rows=table_rows(TABLE_1, ["model", "size"], ["accuracy"])),
    of_paper(label="table 2", title="Fractions of ImageNet", recipe="sample-efficiency",
             rows=table_rows(TABLE_2, ["model", "fraction"], ["accuracy", "top5_accuracy"])),
    of_paper(label="figure 5", title="Nonlocality of every layer while training", recipe=SIZES,
             shown="figure: nonlocality"),
    of_paper(label="figure 6", title="Gates of every head while training", recipe=SIZES,
             shown="figure: gates"),
    of_paper(label="figure 7", title="Attention maps of DeiT-Ti and ConViT-Ti", recipe=SIZES,
             command=MAPS, shown="figure: attention maps of example images"),
    of_paper(label="figure 8a", title="Accuracy by locality strength and number of GPSA layers",
             recipe=GRID, shown="figure: ConViT's figure 8a"),
    of_paper(label="figure 8b", title="Gain of GPSA layers by epoch", recipe=GRID,
             shown="figure: ConViT's figure 8b"),
    of_paper(label="table 3", title="Gates, convolutional start, GPSA, frozen attention",
             recipe=ABLATION, rows=table_rows(TABLE_3, ["variant"], ["accuracy"])),
    of_paper(label="figure 9", title="PSA instead of GPSA", recipe="convit-psa",
             shown="figure: learning curves"),
    of_paper(label="table 4", title="Hard distillation", recipe="distillation",
             rows=table_rows(TABLE_4, ["model", "teacher"], ["accuracy"])),
    of_paper(label="figure 10", title="Nonlocality of DeiT-S with a convolutional teacher",
             recipe="distillation", shown="figure: nonlocality"),
    of_paper(label="figure 11a", title="CIFAR-100 at 224 pixels, 3,000 epochs",
             recipe="convit-cifar", shown="figure: learning curves"),
    of_paper(label="figure 11b", title="ImageNet in three sizes", recipe=SIZES,
             shown="figure: learning curves"),
    of_paper(label="figure 11c", title="Fractions of ImageNet", recipe="sample-efficiency",
             shown="figure: learning curves"),
    of_paper(label="figure 12a", title="Learning curves by number of GPSA layers", recipe=GRID,
             shown="figure: learning curves"),
    of_paper(label="figure 12b", title="Learning curves of table 3", recipe=ABLATION,
             shown="figure: learning curves"),
    of_paper(label="figure 13", title="Nonlocality by size of the model", recipe=SIZES,
             shown="figure: nonlocality"),
    of_paper(label="figure 14", title="Gates by size of the model", recipe=SIZES,
             shown="figure: gates"),
    of_paper(label="figure 15", title="Attention maps averaged over 100 images, before and after",
             recipe=SIZES, command="nearsight maps RUN --images DIR --head all"),
    of_paper(label="figure 16", title="More maps of DeiT-Ti and ConViT-Ti", recipe=SIZES,
             command=MAPS),
    of_paper(label="figure 17", title="Maps of DeiT-S and ConViT-S", recipe=SIZES, command=MAPS),
)  # fmt: skip
