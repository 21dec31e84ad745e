"""Slow references for the attention metrics: plain loops over plain numbers."""

import math


def patch_rows(rows, num_prefix):
    """One head's attention over tokens (lists) to attention over patches."""
    kept = [row[num_prefix:] for row in rows[num_prefix:]]
    return [[value / sum(row) for value in row] for row in kept]


def distance(rows, num_rows, num_cols):
    total = 0.0
    for i, row in enumerate(rows):
        for j, value in enumerate(row):
            down, right = i // num_cols - j // num_cols, i % num_cols - j % num_cols
            total += value * math.sqrt(down**2 + right**2)
    return total / len(rows) / math.sqrt((num_rows - 1) ** 2 + (num_cols - 1) ** 2)


def entropy(rows):
    total = 0.0
    for row in rows:
        total -= sum(value * math.log(value + 1e-12) for value in row)
    return total / len(rows) / math.log(len(rows[0]))


def own_mass(rows):
    return sum(row[i] for i, row in enumerate(rows)) / len(rows)


def bootstrap_minimum(values, counts):
    """Percentiles (linear interpolation) of the smallest head mean over the counted resamples."""
    minima = []
    for drawn in counts:
        totals = [0.0] * len(values[0])
        for times, row in zip(drawn, values):
            for head, value in enumerate(row):
                totals[head] += times * value
        minima.append(min(totals) / sum(drawn))
    minima.sort()
    bounds = []
    for share in (0.025, 0.975):
        place = share * (len(minima) - 1)
        below = math.floor(place)
        above = min(below + 1, len(minima) - 1)
        bounds.append(minima[below] + (place - below) * (minima[above] - minima[below]))
    return bounds
