"""List the tables and figures of LocAt, with the numbers that the paper prints.

Our copy of the paper calls both the table of small data sets and the table of DINO table 3, and
never refers to a table 2. Here they are tables 3a and 3b.
"""

from __future__ import annotations

from functools import partial

from nearsight.study.papers.item import PaperItem, table_rows

of_paper = partial(PaperItem, paper="locat")
BACKBONES = "locat-backbones"
CONTEXT, STUFF = "segmentation_miou_pascal-context", "segmentation_miou_coco-stuff"
DENSE = ("segmentation_miou", CONTEXT, STUFF, "accuracy")  # the first on ADE20K
HUMMINGBIRD = ("hummingbird_miou_voc2012", "hummingbird_miou")

TABLE_1 = """
ViT; Tiny; off | 17.30 33.71 20.29 72.39
ViT; Tiny; on | 23.47 38.57 26.15 73.94
Swin; Tiny; off | 25.58 36.78 28.34 81.18
Swin; Tiny; on | 26.52 37.65 29.09 81.43
RegViT; Tiny; off | 15.98 33.45 19.58 72.90
RegViT; Tiny; on | 24.39 39.90 27.38 74.08
RoPEViT; Tiny; off | 19.17 38.16 22.75 73.60
RoPEViT; Tiny; on | 24.48 40.79 27.98 74.34
Jumbo; Tiny; off | 20.33 36.36 22.13 78.71
Jumbo; Tiny; on | 21.62 37.22 23.87 78.78
ViT; Base; off | 28.40 43.10 30.43 80.99
ViT; Base; on | 32.64 45.35 33.62 82.31
Swin; Base; off | 31.90 40.11 33.60 83.41
Swin; Base; on | 32.89 41.44 34.20 83.43
RegViT; Base; off | 27.93 41.81 28.99 80.71
RegViT; Base; on | 32.71 46.14 34.12 82.19
RoPEViT; Base; off | 31.38 48.83 34.35 82.16
RoPEViT; Base; on | 34.94 49.24 36.37 82.54
Jumbo; Base; off | 32.20 47.31 34.65 84.42
Jumbo; Base; on | 35.69 49.20 35.84 84.43
"""
TABLE_3A = """
mini-imagenet; Tiny; off | 74.94
mini-imagenet; Tiny; on | 78.47
mini-imagenet; Small; off | 78.98
mini-imagenet; Small; on | 84.30
mini-imagenet; Base; off | 79.91
mini-imagenet; Base; on | 84.86
cifar100; Tiny; off | 73.84
cifar100; Tiny; on | 80.43
cifar100; Small; off | 76.33
cifar100; Small; on | 81.13
cifar100; Base; off | 76.90
cifar100; Base; on | 82.20
"""
TABLE_3B = """
off | 65.52 61.69 61.53 59.30 57.90
on | 67.65 63.96 63.74 61.19 59.78
"""
TABLE_4 = """
ViT; Tiny; off | 39.2 12.0
ViT; Tiny; on | 50.3 15.2
Swin; Tiny; off | 45.2 16.1
Swin; Tiny; on | 45.3 16.3
RegViT; Tiny; off | 39.4 12.5
RegViT; Tiny; on | 52.3 15.9
RoPEViT; Tiny; off | 50.7 16.0
RoPEViT; Tiny; on | 54.7 17.5
Jumbo; Tiny; off | 40.0 13.3
Jumbo; Tiny; on | 45.5 14.5
ViT; Base; off | 55.8 19.5
ViT; Base; on | 58.7 21.5
Swin; Base; off | 57.6 23.3
Swin; Base; on | 62.8 24.6
RegViT; Base; off | 55.5 19.4
RegViT; Base; on | 60.3 22.8
RoPEViT; Base; off | 61.0 22.4
RoPEViT; Base; on | 61.4 23.7
Jumbo; Base; off | 58.5 21.6
Jumbo; Base; on | 63.8 23.7
"""
TABLE_5 = """
ViT; Tiny | 17.30 33.71 20.29 72.39
ViT + GAug; Tiny | 18.98 34.97 21.51 73.16
ViT + PRR; Tiny | 21.60 37.93 25.85 73.71
LocAtViT; Tiny | 23.47 38.57 26.15 73.94
ViT - PE; Tiny | 15.13 31.94 19.35 69.36
LocAtViT - PE; Tiny | 22.69 38.15 26.05 73.10
ViT + GAP; Tiny | 19.65 34.94 22.86 72.50
ViT; Base | 28.40 43.10 30.43 80.99
ViT + GAug; Base | 30.26 44.36 32.21 82.00
ViT + PRR; Base | 29.89 44.03 32.16 82.19
LocAtViT; Base | 32.64 45.35 33.62 82.31
ViT - PE; Base | 24.59 40.18 28.79 79.39
LocAtViT - PE; Base | 29.73 44.69 32.17 82.17
ViT + GAP; Base | 27.99 41.97 29.88 81.84
"""
TABLE_7 = """
LocAtViT; Tiny | 78.47
width from the input; Tiny | 79.10
isotropic; Tiny | 78.71
strength 1; Tiny | 76.26
automatic strength; Tiny | 78.48
LocAtViT; Base | 84.86
width from the input; Base | 85.18
isotropic; Base | 84.66
strength 1; Base | 83.07
automatic strength; Base | 84.54
"""
TABLE_8 = """
none; Tiny | 17.30 33.71 20.29 72.39
Gaussian; Tiny | 23.47 38.57 26.15 73.94
inverse distance; Tiny | 22.18 38.16 25.25 74.00
Laplace; Tiny | 21.67 37.80 25.56 74.01
none; Base | 28.40 43.10 30.43 80.99
Gaussian; Base | 32.64 45.35 33.62 82.31
inverse distance; Base | 28.42 43.48 30.82 81.94
Laplace; Base | 29.74 44.10 31.95 82.24
"""
NEIGHBOURS = ("knn_accuracy", *(f"knn_accuracy_{k}" for k in (20, 100, 200)))  # first: k = 10
MAPS = "nearsight maps RUN --image FILE --head all"
OTHER_SETS = (
    "nearsight evaluate CELL --task segmentation --method locat --set scale=full --data "
    "pascal-context (or coco-stuff) fills the other columns"
)
OTHER_NEIGHBOURS = (
    "nearsight evaluate CELL --task hummingbird --data voc2012 fills the column of VOC"
)
PROBE = "nearsight evaluate MODEL --pretrained --method locat --data ade20k"

LOCAT_ITEMS: tuple[PaperItem, ...] = (
    of_paper(label="figure 1", title="Attention maps of ViT and LocAtViT on an image of a bus",
             recipe=BACKBONES, command=MAPS, shown="figure: attention maps of example images"),
    of_paper(label="figure 2", title="mIoU against top-1, arrows from each backbone to LocAt",
             recipe=BACKBONES, shown="figure: LocAt's figure 2"),
    of_paper(label="figure 3", title="The architecture", reason="a diagram"),
    of_paper(label="table 1", title="Five backbones: frozen segmentation, top-1, FLOPs",
             recipe=BACKBONES,
             command=f"nearsight models NAME counts parameters and FLOPs; {OTHER_SETS}",
             rows=table_rows(TABLE_1, ["backbone", "size", "locat"], DENSE)),
    of_paper(label="table 3a", title="Small data: mini-ImageNet and CIFAR-100",
             recipe="locat-small-data",
             rows=table_rows(TABLE_3A, ["data", "size", "locat"], ["accuracy"])),
    of_paper(label="table 3b", title="DINO: linear and nearest-neighbour classification",
             recipe="locat-dino",
             rows=table_rows(TABLE_3B, ["locat"], ["linear_accuracy", *NEIGHBOURS])),
    of_paper(label="table 4", title="Hummingbird on VOC and ADE20K", recipe=BACKBONES,
             command=OTHER_NEIGHBOURS,
             rows=table_rows(TABLE_4, ["backbone", "size", "locat"], HUMMINGBIRD)),
    of_paper(label="table 5", title="GAug, PRR, positions and GAP", recipe="locat-ablation",
             command=OTHER_SETS,
             rows=table_rows(TABLE_5, ["model", "size"], DENSE)),
    of_paper(label="table 6", title="LocAtViT beside other published models", command=PROBE,
             reason="nothing is trained: the paper takes published weights of CvT-21, Conformer, "
             "ConViT, Twins, DaViT and GCViT. timm has convit_base, twins_svt_base, davit_base and "
             "gcvit_base; it has no CvT and no Conformer"),
    of_paper(label="figure 4", title="Attention maps of three images of mini-ImageNet",
             recipe="locat-small-data", command=MAPS,
             shown="figure: attention maps of example images"),
    of_paper(label="table 7", title="Variants of the Gaussian, mini-ImageNet",
             recipe="locat-gaussian", rows=table_rows(TABLE_7, ["gaussian", "size"], ["accuracy"])),
    of_paper(label="table 8", title="Kernels of distance", recipe="locat-kernels",
             command=OTHER_SETS,
             rows=table_rows(TABLE_8, ["kernel", "size"], DENSE)),
    of_paper(label="figure 5", title="Locality score and patch-[CLS] similarity by layer",
             recipe=BACKBONES, shown="figure: features of layers"),
    of_paper(label="figure 6", title="Learned widths by layer", recipe=BACKBONES,
             shown="figure: learned widths"),
    of_paper(label="appendix H", title="GCViT, the negative control", recipe="locat-gcvit",
             shown="table of runs"),
)  # fmt: skip
