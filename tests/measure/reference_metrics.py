"""Slow references for the metrics of one head: plain loops over plain numbers.

``rows[i][j]`` is what query i gives to key j; ``queries`` and ``keys`` are lists of (row, col)
places in patches, the same list unless keys are pooled.
"""

import math


def places(num_rows, num_cols):
    return [(row, col) for row in range(num_rows) for col in range(num_cols)]


def distance(rows, queries, keys):
    """In patches."""
    total = 0.0
    for row, query in zip(rows, queries, strict=True):
        for value, key in zip(row, keys, strict=True):
            total += value * math.dist(query, key)
    return total / len(rows)


def nearest(query, keys):
    return min(range(len(keys)), key=lambda j: math.dist(query, keys[j]))


def own_mass(rows, queries, keys):
    shares = [row[nearest(query, keys)] for row, query in zip(rows, queries, strict=True)]
    return sum(shares) / len(shares)


def distance_without_self(rows, queries, keys):
    attended = left = 0.0
    for row, query in zip(rows, queries, strict=True):
        own = nearest(query, keys)
        for j, value in enumerate(row):
            if j != own:
                attended += value * math.dist(query, keys[j])
                left += value
    return attended / left if left else 0.0


def uniform_distance(queries, keys):
    total = sum(math.dist(query, key) for query in queries for key in keys)
    return total / len(queries) / len(keys)


def ring_masses(rows, queries, keys, num_rings):
    masses = [0.0] * num_rings
    for row, query in zip(rows, queries, strict=True):
        for value, key in zip(row, keys, strict=True):
            reach = max(abs(key[0] - query[0]), abs(key[1] - query[1]))
            masses[math.ceil(reach - 1e-6)] += value / len(rows)
    return masses


def radius_masses(rows, queries, keys):
    masses = [0.0, 0.0, 0.0]
    for row, query in zip(rows, queries, strict=True):
        for value, key in zip(row, keys, strict=True):
            reach = max(abs(key[0] - query[0]), abs(key[1] - query[1]))
            for radius in (1, 2, 3):
                if reach <= radius + 1e-6:
                    masses[radius - 1] += value / len(rows)
    return masses


def offset(rows, queries, keys):
    down = right = 0.0
    for row, query in zip(rows, queries, strict=True):
        for value, key in zip(row, keys, strict=True):
            down += value * (key[0] - query[0])
            right += value * (key[1] - query[1])
    return [down / len(rows), right / len(rows)]


def spread(rows, queries, keys):
    down, right = offset(rows, queries, keys)
    total = 0.0
    for row, query in zip(rows, queries, strict=True):
        for value, key in zip(row, keys, strict=True):
            total += value * (key[0] - query[0] - down) ** 2
            total += value * (key[1] - query[1] - right) ** 2
    return math.sqrt(total / len(rows))


def entropy_of(shares):
    return -sum(value * math.log(value) for value in shares if value > 0)


def information(rows):
    """I(q; k) / sqrt(H(q) H(k)) from the joint distribution, term by term."""
    num = len(rows)
    keys = [sum(row[j] for row in rows) / num for j in range(len(rows[0]))]
    shared = 0.0
    for row in rows:
        for j, value in enumerate(row):
            if value > 0:
                shared += value / num * math.log(value / num / (keys[j] / num))
    largest = math.sqrt(math.log(num) * entropy_of(keys))
    return shared / largest if largest else 0.0


def diversity(heads):
    """``heads[h]`` are the rows of head h."""
    apart = []
    for a in range(len(heads)):
        for b in range(a):
            total = 0.0
            for one, other in zip(heads[a], heads[b], strict=True):
                total += sum(abs(x - y) for x, y in zip(one, other, strict=True)) / 2
            apart.append(total / len(heads[a]))
    return sum(apart) / len(apart) if apart else 0.0


def inner(one, other):
    return sum(x * y for a, b in zip(one, other) for x, y in zip(a, b))


def position_share(maps):
    """``maps[image]`` are the rows of one head: pairs of images against an image with itself."""
    num = len(maps)
    apart = [inner(maps[a], maps[b]) for a in range(num) for b in range(num) if a != b]
    same = [inner(rows, rows) for rows in maps]
    return (sum(apart) / len(apart)) / (sum(same) / num)


def cosine(one, other):
    lengths = math.sqrt(sum(x * x for x in one) * sum(x * x for x in other))
    return sum(x * y for x, y in zip(one, other, strict=True)) / lengths if lengths else 0.0


def neighbour_cosine(patches, num_rows, num_cols):
    """``patches[i]`` is the feature of patch i, row by row."""
    total = 0.0
    for row, col in places(num_rows, num_cols):
        found = []
        for down in (-1, 0, 1):
            for right in (-1, 0, 1):
                near = row + down, col + right
                inside = 0 <= near[0] < num_rows and 0 <= near[1] < num_cols
                if (down, right) != (0, 0) and inside:
                    other = patches[near[0] * num_cols + near[1]]
                    found.append(cosine(patches[row * num_cols + col], other))
        total += sum(found) / len(found)
    return total / len(patches)
