"""Where tokens sit on the image, family by family, and the distances that follow: plain loops.

Nothing here is shared with the package: places are computed token by token from the sizes that a
test states, never from index maps that go the way of the features.
"""

import itertools
import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Places:
    """(row, col) of every query and key in every window, in query patches; None without a place."""

    rows: int
    cols: int
    queries: list
    keys: list
    inner: bool = False  # attention is [image, head, window, query, key]

    @property
    def num_prefix(self):
        tokens = self.queries[0] if len(self.queries) == 1 else []
        return len([place for place in tokens if place is None])


def whole(rows, cols, num_prefix=0):
    """Prefix tokens, then the patches row by row."""
    tokens = [None] * num_prefix
    for row in range(rows):
        for col in range(cols):
            tokens.append((row, col))
    return Places(rows, cols, [tokens], [tokens])


def rectangles(rows, cols, window, shift=(0, 0), padded_first=False):
    """Swin: windows over a map that was shifted up and left, padded before or after that."""
    num_down, num_right = math.ceil(rows / window[0]), math.ceil(cols / window[1])
    around = (num_down * window[0], num_right * window[1]) if padded_first else (rows, cols)
    windows = []
    for down, right in itertools.product(range(num_down), range(num_right)):
        tokens = []
        for y, x in itertools.product(range(window[0]), range(window[1])):
            row, col = down * window[0] + y, right * window[1] + x
            if row >= around[0] or col >= around[1]:
                tokens.append(None)
                continue
            row, col = (row + shift[0]) % around[0], (col + shift[1]) % around[1]
            tokens.append((row, col) if row < rows and col < cols else None)
        windows.append(tokens)
    return Places(rows, cols, windows, windows)


def lattices(rows, cols, size):
    """MaxViT's grid attention: every window is spread evenly over the map."""
    down, right = rows // size[0], cols // size[1]
    windows = []
    for first_row, first_col in itertools.product(range(down), range(right)):
        tokens = []
        for y, x in itertools.product(range(size[0]), range(size[1])):
            tokens.append((first_row + y * down, first_col + x * right))
        windows.append(tokens)
    return Places(rows, cols, windows, windows)


def covered(size, kernel, stride, padding):
    """Mean position under the kernel at each of its stops along a side."""
    means, start = [], -padding
    while start + kernel <= size + padding:
        means.append(sum(range(start, start + kernel)) / kernel)
        start += stride
    return means


def adaptive(size, num_cells):
    """Mean position in each cell of adaptive pooling (torch: from floor to ceil)."""
    means = []
    for cell in range(num_cells):
        inside = range(cell * size // num_cells, -(-(cell + 1) * size // num_cells))
        means.append(sum(inside) / len(inside))
    return means


def pooled(query_sides, key_sides, step=(1, 1), num_prefix=0):
    """Queries and keys at pooled positions of a map; ``step`` is from query to query."""
    origin = query_sides[0][0], query_sides[1][0]

    def placed(sides):
        tokens = [None] * num_prefix
        for row, col in itertools.product(*sides):
            tokens.append(((row - origin[0]) / step[0], (col - origin[1]) / step[1]))
        return [tokens]

    sizes = len(query_sides[0]), len(query_sides[1])
    return Places(*sizes, placed(query_sides), placed(key_sides))


def unrolled(rows, cols, num_halvings):
    """Hiera's order: which of 2x2 first, then which of 2x2 of those, then the cells."""
    coarse = 2**num_halvings
    tokens = []
    for digits in itertools.product(range(4), repeat=num_halvings):
        for row, col in itertools.product(range(rows // coarse), range(cols // coarse)):
            for digit in reversed(digits):
                row, col = 2 * row + digit // 2, 2 * col + digit % 2
            tokens.append((row, col))
    return tokens


def hiera(rows, cols, num_halvings, pooling=False, num_windows=None):
    """Hiera on a map of ``rows x cols`` keys; windows take every ``num_windows``-th token."""
    keys = unrolled(rows, cols, num_halvings)
    queries = keys
    if pooling:
        rows, cols = rows // 2, cols // 2
        queries = unrolled(rows, cols, num_halvings - 1)
        keys = [((row - 0.5) / 2, (col - 0.5) / 2) for row, col in keys]
    if num_windows is None:
        return Places(rows, cols, [queries], [keys])
    starts = range(num_windows)
    windows = [[tokens[start::num_windows] for start in starts] for tokens in (queries, keys)]
    return Places(rows, cols, *windows, inner=True)


def windows_apart(weights, places):
    """[image, head, window, query, key]"""
    if places.inner:
        return weights
    return weights.unflatten(0, (-1, len(places.queries))).transpose(1, 2)


def put_back(weights, places):
    """Attention [image, head, query, key] over prefix tokens and the whole image, row by row."""
    weights = windows_apart(weights, places)
    prefix = places.num_prefix

    def numbered(windows):
        ranked = sorted({place for tokens in windows for place in tokens if place is not None})
        number = {place: prefix + rank for rank, place in enumerate(ranked)}
        return prefix + len(ranked), [
            [i if i < prefix else number.get(place) for i, place in enumerate(tokens)]
            for tokens in windows
        ]

    num_queries, queries = numbered(places.queries)
    num_keys, keys = numbered(places.keys)
    whole = weights.new_zeros(*weights.shape[:2], num_queries, num_keys)
    for window in range(weights.shape[2]):
        for i, row in enumerate(queries[window]):
            for j, col in enumerate(keys[window]):
                if row is not None and col is not None:
                    whole[:, :, row, col] = weights[:, :, window, i, j]
    return whole


def mad(weights, places):
    """MAD [image][head] in grid diagonals of attention as the model has it."""
    num_queries = places.rows * places.cols
    diagonal = math.hypot(places.rows - 1, places.cols - 1) or 1.0
    found = []
    for image in windows_apart(weights, places).double().tolist():
        found.append([])
        for head in image:
            total = 0.0
            for rows, queries, keys in zip(head, places.queries, places.keys, strict=True):
                for row, query in zip(rows, queries, strict=True):
                    if query is not None:
                        total += attended(row, query, keys)
            found[-1].append(total / num_queries / diagonal)
    return found


def attended(row, query, keys):
    """Mean distance from a query to the keys with a place, weighted by its attention to them."""
    mass = distance = 0.0
    for weight, key in zip(row, keys, strict=True):
        if key is not None:
            mass += weight
            distance += weight * math.dist(query, key)
    return distance / mass
