"""List the segmentation sets by name, and open one of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from nearsight.core import UserError, closest, expand_path
from nearsight.data.segmentation.ade20k import ade20k
from nearsight.data.segmentation.camvid import camvid
from nearsight.data.segmentation.coco_stuff import coco_stuff
from nearsight.data.segmentation.mask_folder import mask_folder
from nearsight.data.segmentation.pascal_context import pascal_context
from nearsight.data.segmentation.segments import Segments
from nearsight.data.segmentation.shape_masks import shape_masks
from nearsight.data.segmentation.voc2012 import voc2012
from nearsight.data.sets import data_root

# Every segmentation set by name. To add one, write a module with such a function, and a line here.
SETS: dict[str, Callable[[Path, str], Segments]] = {
    "voc2012": voc2012,
    "pascal-context": pascal_context,
    "ade20k": ade20k,
    "coco-stuff": coco_stuff,
    "camvid": camvid,
    "shapes": shape_masks,
}
FOLDER_PREFIX = "folder:"


def open_segmentation(
    name_or_path: str | Path, root: Path | None = None, split: str = "val"
) -> Segments:
    """Open one split of a segmentation set; ``[i]`` is an RGB image and its mask.

    Args:
        name_or_path: A name of ``SETS``, or the path of a folder of images and masks.
        root: The folder that contains the named sets; by default that of all data sets.
        split: ``train``, ``val``, or another split that the set has.

    Returns:
        The images in a fixed order. A mask has the size of its image and holds the number of the
        class of every pixel, or 255 where the class is not known.

    Raises:
        UserError: If the set, the split, an image or a mask is missing. When an image is read, also
            if its mask has another size, an undefined value or no pixel of a known class.
    """
    text = str(name_or_path)
    if text in SETS:
        return SETS[text](data_root(root), split)
    path = expand_path(text.removeprefix(FOLDER_PREFIX))
    if "/" in text or text.startswith(FOLDER_PREFIX) or path.is_dir():
        return mask_folder(path.resolve(), split)
    near = closest(text, tuple(SETS), cutoff=0.4) or tuple(SETS)
    raise UserError(
        f"unknown segmentation set {text!r}; did you mean {' or '.join(near)}? "
        "Give a folder of images and masks by its path"
    )
