"""Small explorations with sharp attention, and Python's own numbers of what the page must show."""

import json

import numpy as np
import torch
from measure import toy_models

import nearsight as ns
from nearsight.explore.exploration import Exploration
from nearsight.explore.images import Images
from nearsight.explore.shown_model import subject_of_model
from nearsight.models.layers.grid import Grid
from nearsight.models.load import create_model

SIZES = {"plain": (12, 20), "wide": (20, 28), "windows": (20, 28)}


def wide():
    """5x7 patches after a class token, 3 layers."""
    torch.manual_seed(7)
    return toy_models.sharpened(
        create_model("mu", 7, image_size=(20, 28), patch_size=4, depth=3, num_heads=2)
    )


MODELS = {"plain": toy_models.plain, "wide": wide, "windows": toy_models.windows}


def made_images(name, count=3):
    inputs = toy_models.images(*SIZES[name], count=count)
    draw = np.random.default_rng(5)
    pixels = [draw.integers(0, 256, (*SIZES[name], 3)).astype(np.uint8) for _ in range(count)]
    return Images([f"picture {i}" for i in range(count)], inputs, pixels)


def made_subject(name, shown=2, count=3):
    return subject_of_model(name, MODELS[name](), made_images(name, count), shown, "a toy")


def made_exploration(*names):
    return Exploration(" and ".join(names), tuple(made_subject(name) for name in names))


def captured(name, image=0):
    """Attention [head, query, key] of every layer, as the model made it."""
    with torch.no_grad(), ns.capture_attention(model := MODELS[name]()) as maps:
        model(made_images(name).inputs)
    return [layer[image] for layer in maps]


def localised(weights, grid, num_prefix, width):
    """normalise(A * exp(b)): rows of prefix tokens stay, prefix columns have b = 0."""
    changed = weights.double().clone()
    if width is not None:
        bias = -(grid.distances("patches") ** 2) / (2 * width**2)
        changed[:, num_prefix:, num_prefix:] *= bias.exp()
        changed /= changed.sum(-1, keepdim=True)
    return changed


def head_numbers(weights, grid, num_prefix, width=None):
    """MAD and entropy per head, by the definition, of rows that were never rounded."""
    rows = localised(weights, grid, num_prefix, width)[None]
    patches = ns.patch_attention(rows, num_prefix)
    return {
        "mad": ns.mean_attention_distance(patches, grid)[0].tolist(),
        "entropy": ns.attention_entropy(patches)[0].tolist(),
        "self_mass": ns.self_mass(patches)[0].tolist(),
    }


def grid_of(name):
    return {"plain": Grid(3, 5), "wide": Grid(5, 7), "windows": Grid(5, 7)}[name]


def shift_names(page_text, old, new):
    """A page in which a name was replaced by a nasty one, as JSON would hold it."""
    return page_text.replace(json.dumps(old)[1:-1], json.dumps(new)[1:-1])
