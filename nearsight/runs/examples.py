"""examples.json: the attention and features of a few example images, small enough for a web page.

``nearsight measure`` writes the file, and the report and the explorer read it. For every image it
holds the picture as the model saw it and one block of bytes, compressed by gzip and written in
base64. The block holds each of these parts for all layers before the next part begins:

    uint16   weights on prefix tokens [head, query, prefix], then scales [head, query, 3]
    uint8    differences of codes [head, query, cell] (see companding.py)
    uint8    similarity of features ("likeness"), the lower triangle row by row
    uint8    colours of the first three principal components [patch, 3]

Queries are the prefix tokens and then the patches row by row. Cells are the keys that have a place
on the image. Nothing here imports torch.
"""

from __future__ import annotations

import base64
import gzip
import io
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float32, UInt8, UInt16

from nearsight.runs.companding import (
    NUM_SCALES,
    compand,
    differences,
    expand,
    from_differences,
    scale_numbers,
    size_codes,
    sizes_of,
)
from nearsight.runs.records import EXAMPLES_FILE

EXAMPLES = EXAMPLES_FILE.name
EXAMPLES_VERSION = 1
LIKENESS_STEPS = 63  # steps into which a cosine from -1 to 1 is divided
LOSSLESS_SIDE = 96  # pixels; smaller pictures are stored as PNG, because JPEG would blur them
JPEG_QUALITY = 88


@dataclass(frozen=True)
class LayerPlaces:
    """Where the queries and keys of a layer are: the same for every image."""

    name: str
    rows: int  # of the query patches
    cols: int
    num_heads: int
    query_prefix: int  # prefix tokens among the queries
    key_prefix: int  # prefix tokens among the keys
    key_rows: tuple[float, ...]  # of the cells, in rows of the grid
    key_cols: tuple[float, ...]
    num_keys: int  # cells that a query can see: fewer than all where patches attend in windows
    feature_prefix: int | None  # prefix tokens among the features; None without features

    @property
    def num_patches(self) -> int:
        """Return the number of patches."""
        return self.rows * self.cols

    @property
    def num_queries(self) -> int:
        """Return the number of queries: prefix tokens and patches."""
        return self.query_prefix + self.num_patches

    @property
    def num_cells(self) -> int:
        """Return the number of keys that have a place on the image."""
        return len(self.key_rows) * len(self.key_cols)

    @property
    def num_features(self) -> int:
        """Return the number of tokens that have a feature."""
        return 0 if self.feature_prefix is None else self.feature_prefix + self.num_patches

    @cached_property
    def cells(self) -> np.ndarray:
        """Return row and column of every cell, float64 [cell, 2]."""
        rows, cols = np.meshgrid(self.key_rows, self.key_cols, indexing="ij")
        return np.stack([rows.ravel(), cols.ravel()], -1).astype(np.float64)

    @cached_property
    def scale_numbers(self) -> UInt8[np.ndarray, "query cell"]:
        """Return the number of each cell's scale; prefix tokens have no place and use the last."""
        rows, cols = np.divmod(np.arange(self.num_patches), self.cols)
        numbers = scale_numbers(np.stack([rows, cols], -1).astype(np.float64), self.cells)
        last = np.full((self.query_prefix, self.num_cells), NUM_SCALES - 1, np.uint8)
        return np.concatenate([last, numbers])

    def contents(self) -> dict[str, Any]:
        """Return plain values for JSON, from which ``of`` makes the places again."""
        return {
            "name": self.name,
            "grid": [self.rows, self.cols],
            "num_heads": self.num_heads,
            "query_prefix": self.query_prefix,
            "key_prefix": self.key_prefix,
            "key_rows": list(self.key_rows),
            "key_cols": list(self.key_cols),
            "num_keys": self.num_keys,
            "feature_prefix": self.feature_prefix,
        }

    @classmethod
    def of(cls, contents: dict[str, Any]) -> LayerPlaces:
        """Make places from what ``contents`` returned."""
        lists = {name: tuple(contents[name]) for name in ("key_rows", "key_cols")}
        rows, cols = contents["grid"]
        rest = {name: value for name, value in contents.items() if name != "grid"}
        return cls(rows=rows, cols=cols, **(rest | lists))


@dataclass(frozen=True)
class LayerExample:
    """The attention and features of one image in one layer."""

    prefix: UInt16[np.ndarray, "head query prefix"]
    scales: UInt16[np.ndarray, "head query 3"]
    codes: UInt8[np.ndarray, "head query cell"]
    likeness: UInt8[np.ndarray, " pair"]
    colours: UInt8[np.ndarray, "patch 3"]

    @classmethod
    def of(
        cls,
        weights: Float32[np.ndarray, "head query key"],
        likeness: UInt8[np.ndarray, " pair"],
        colours: UInt8[np.ndarray, "patch 3"],
        places: LayerPlaces,
    ) -> LayerExample:
        """Encode the attention of a layer; the keys are the prefix tokens and then the cells."""
        prefix, cells = np.split(weights.astype(np.float32), [places.key_prefix], axis=-1)
        codes, scales = compand(cells, places.scale_numbers)
        return cls(size_codes(prefix), scales, codes, likeness, colours)

    def weights(self, places: LayerPlaces) -> Float32[np.ndarray, "head query key"]:
        """Decode the attention; the keys are the prefix tokens and then the cells."""
        return np.concatenate(
            [sizes_of(self.prefix), expand(self.codes, self.scales, places.scale_numbers)], -1
        )


@dataclass(frozen=True)
class Example:
    """One image: its name, its picture as the model saw it, and its attention in every layer."""

    name: str
    source: str  # data:image/... of the picture
    layers: tuple[LayerExample, ...]


@dataclass(frozen=True)
class Examples:
    """A few images seen by one model."""

    prefix_names: tuple[str, ...]  # "[CLS]", "register 1": of the layer with most prefix tokens
    layers: tuple[LayerPlaces, ...]
    images: tuple[Example, ...]

    def contents(self) -> dict[str, Any]:
        """Return plain values for JSON, from which ``of_contents`` makes the examples again."""
        return {
            "schema_version": EXAMPLES_VERSION,
            "prefix_names": list(self.prefix_names),
            "layers": [layer.contents() for layer in self.layers],
            "images": [
                {"name": image.name, "source": image.source, "bytes": self._block(image)}
                for image in self.images
            ],
        }

    @classmethod
    def of_contents(cls, contents: dict[str, Any]) -> Examples:
        """Make examples from what ``contents`` returned."""
        layers = tuple(LayerPlaces.of(layer) for layer in contents["layers"])
        images = tuple(
            Example(x["name"], x["source"], unpack(base64.b64decode(x["bytes"]), layers))
            for x in contents["images"]
        )
        return cls(tuple(contents["prefix_names"]), layers, images)

    def _block(self, image: Example) -> str:
        return base64.b64encode(pack(image.layers, self.layers)).decode()


def read_examples_contents(folder: Path) -> dict[str, Any] | None:
    """Return the plain values of a folder's examples.json, or None if there is no such file."""
    there = (Path(folder) / EXAMPLES).is_file()
    return EXAMPLES_FILE.read(folder).contents() if there else None


def pack(layers: Sequence[LayerExample], places: Sequence[LayerPlaces]) -> bytes:
    """Encode the layers of one image as a block of bytes."""
    sizes, codes = [], []
    for layer, at in zip(layers, places, strict=True):
        sizes += [layer.prefix, layer.scales]
        first, rest = np.split(layer.codes, [at.query_prefix], axis=1)
        codes += [np.concatenate([first, differences(rest, at.cols)], 1)]
    parts = [x.astype("<u2") for x in sizes] + codes
    parts += [layer.likeness for layer in layers] + [layer.colours for layer in layers]
    return gzip.compress(b"".join(part.tobytes() for part in parts), 9, mtime=0)


def unpack(block: bytes, places: Sequence[LayerPlaces]) -> tuple[LayerExample, ...]:
    """Decode the layers of one image from its block of bytes."""
    content, start = gzip.decompress(block), 0

    def take(kind: str, *sizes: int) -> np.ndarray:
        nonlocal start
        count = int(np.prod(sizes))
        array = np.frombuffer(content, kind, count, start).reshape(sizes)
        start += array.nbytes
        return array

    sizes = [
        (
            take("<u2", at.num_heads, at.num_queries, at.key_prefix),
            take("<u2", at.num_heads, at.num_queries, NUM_SCALES),
        )
        for at in places
    ]
    codes = []
    for at in places:
        differences_of_layer = take("u1", at.num_heads, at.num_queries, at.num_cells)
        first, rest = np.split(differences_of_layer, [at.query_prefix], axis=1)
        codes.append(np.concatenate([first, from_differences(rest, at.cols)], 1))
    likeness = [take("u1", at.num_features * (at.num_features + 1) // 2) for at in places]
    colours = [take("u1", 0 if at.feature_prefix is None else at.num_patches, 3) for at in places]
    return tuple(
        LayerExample(*pair, *rest)
        for pair, *rest in zip(sizes, codes, likeness, colours, strict=True)
    )


def picture_source(pixels: UInt8[np.ndarray, "h w 3"]) -> str:
    """Return a picture as a data: address, lossless if it is small."""
    from PIL import Image

    small = max(pixels.shape[:2]) <= LOSSLESS_SIDE
    kind, options = ("png", {"optimize": True}) if small else ("jpeg", {"quality": JPEG_QUALITY})
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, kind, **options)
    return f"data:image/{kind};base64,{base64.b64encode(buffer.getvalue()).decode()}"


def likeness_codes(
    similarity: Float32[np.ndarray, "token token"],
) -> UInt8[np.ndarray, " pair"]:
    """Encode the lower triangle of cosine similarities, in 63 steps from -1 to 1.

    >>> likeness_codes(np.array([[1.0, -1.0], [-1.0, 1.0]], np.float32)).tolist()
    [63, 0, 63]
    """
    triangle = similarity[np.tril_indices(len(similarity))]
    return np.rint((triangle.clip(-1, 1) + 1) / 2 * LIKENESS_STEPS).astype(np.uint8)
