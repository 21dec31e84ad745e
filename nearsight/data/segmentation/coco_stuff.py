"""Open COCO-Stuff 164k: 80 classes of things and 91 of stuff on the images of COCO 2017.

The official layout is ``images/{train2017,val2017}`` and ``annotations/{train2017,val2017}``, the
latter from ``stuffthingmaps_trainval2017.zip``. A value in a mask is COCO's number of the category
minus one; COCO never used 11 of the numbers. 255 means that the class is not known.
"""

from __future__ import annotations

from pathlib import Path

from nearsight.data.segmentation.segments import (
    VOID,
    FileSegments,
    choose_folder,
    choose_split,
    pair_files,
)

FOLDERS = {"train": "train2017", "val": "val2017"}
UNUSED = (11, 25, 28, 29, 44, 65, 67, 68, 70, 82, 90)  # values without a category
NUM_VALUES = 182
CLASSES = (
    "person", "bicycle", "car", "motorcycle", "airplane", "bus", "train", "truck", "boat",
    "traffic light", "fire hydrant", "stop sign", "parking meter", "bench", "bird", "cat", "dog",
    "horse", "sheep", "cow", "elephant", "bear", "zebra", "giraffe", "backpack", "umbrella",
    "handbag", "tie", "suitcase", "frisbee", "skis", "snowboard", "sports ball", "kite",
    "baseball bat", "baseball glove", "skateboard", "surfboard", "tennis racket", "bottle",
    "wine glass", "cup", "fork", "knife", "spoon", "bowl", "banana", "apple", "sandwich",
    "orange", "broccoli", "carrot", "hot dog", "pizza", "donut", "cake", "chair", "couch",
    "potted plant", "bed", "dining table", "toilet", "tv", "laptop", "mouse", "remote",
    "keyboard", "cell phone", "microwave", "oven", "toaster", "sink", "refrigerator", "book",
    "clock", "vase", "scissors", "teddy bear", "hair drier", "toothbrush", "banner", "blanket",
    "branch", "bridge", "building-other", "bush", "cabinet", "cage", "cardboard", "carpet",
    "ceiling-other", "ceiling-tile", "cloth", "clothes", "clouds", "counter", "cupboard",
    "curtain", "desk-stuff", "dirt", "door-stuff", "fence", "floor-marble", "floor-other",
    "floor-stone", "floor-tile", "floor-wood", "flower", "fog", "food-other", "fruit",
    "furniture-other", "grass", "gravel", "ground-other", "hill", "house", "leaves", "light",
    "mat", "metal", "mirror-stuff", "moss", "mountain", "mud", "napkin", "net", "paper",
    "pavement", "pillow", "plant-other", "plastic", "platform", "playingfield", "railing",
    "railroad", "river", "road", "rock", "roof", "rug", "salad", "sand", "sea", "shelf",
    "sky-other", "skyscraper", "snow", "solid-other", "stairs", "stone", "straw",
    "structural-other", "table", "tent", "textile-other", "towel", "tree", "vegetable",
    "wall-brick", "wall-concrete", "wall-other", "wall-panel", "wall-stone", "wall-tile",
    "wall-wood", "water-other", "waterdrops", "window-blind", "window-other", "wood",
)  # fmt: skip


def coco_stuff(root: Path, split: str) -> FileSegments:
    """Open a split of COCO-Stuff below ``root``."""
    folder = choose_folder(root, ("coco_stuff164k", "cocostuff", "coco"), "coco-stuff")
    part = FOLDERS[choose_split(split, tuple(FOLDERS), "coco-stuff")]
    images = folder / "images" / part
    names = sorted(path.stem for path in images.glob("*.jpg"))
    values = [value for value in range(NUM_VALUES) if value not in UNUSED]
    return FileSegments(
        name="coco-stuff",
        split=split,
        classes=CLASSES,
        files=pair_files(images, folder / "annotations" / part, names),
        labels={**{value: label for label, value in enumerate(values)}, VOID: VOID},
    )
