"""Load weights from a file: safetensors, or a pickle that contains only tensors.

Names and shapes must agree, with three exceptions, each of which is reported:
- A classifier head for another number of classes is left out; the model keeps its own new head.
- Positional embeddings of another grid are resampled bicubically, as in timm.
- If the file holds a training module that contains the model and other tensors (such as the weights
  of a loss), only the model is read.

Pickles are read with torch's ``weights_only`` reader. It creates tensors and plain containers and
refuses everything else, so no code in them is executed.
"""

from __future__ import annotations

import argparse
import math
import pathlib
import re
import warnings
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from nearsight.core import UserError
from nearsight.models.compat import declare_missing_ops
from nearsight.models.layers import Grid
from nearsight.models.parts import PARTS, GentleStart

PICKLES = (".pt", ".pth", ".bin", ".ckpt", ".pkl", ".pickle", ".tar")
WRAPPINGS = ("state_dict", "model")
SETTINGS = (argparse.Namespace, pathlib.PosixPath)  # DeiT and Lightning save these with weights
POSITIONS = "pos_embed"
NUM_NAMED = 5  # how many weights an error names; further ones are only counted


def load_weights(
    model: nn.Module, path: Path, to_train: bool = False, exact: bool = False
) -> list[str]:
    """Load weights from a file into a model, and return sentences about what was changed.

    If an error occurs, the model stays unchanged.

    Args:
        model: The model.
        path: The file.
        to_train: Allow weights without a part for a model with the part, if the part can start so
            weak that the model first computes the same as without it.
        exact: Raise an error also if only the head or the grid differs.

    Raises:
        UserError: If the file cannot be read, or its weights do not fit.
    """
    wanted = model.state_dict()
    given, changes = _without_prefix(_read(path), wanted, path)
    _fill_shared(given, model)
    missing = _missing_parts(given, wanted) if to_train else {}
    given |= {name: wanted[name] for names in missing.values() for name in names}
    if not exact:
        changes += _keep_head(given, wanted, _head_names(model, wanted))
        changes += _resample_positions(given, wanted, model)
    _check_names(given, wanted, path)
    _check_shapes(given, wanted, path)
    _check_kinds(given, wanted, path)
    _check_finite(given, model, path)
    model.load_state_dict(given)
    for gently, names in missing.items():
        changes.append(f"The file has no {gently.title}; its {len(names)} weights {gently.words}.")
        gently.start(model)
    return changes


def _missing_parts(
    given: dict[str, Tensor], wanted: dict[str, Tensor]
) -> dict[GentleStart, list[str]]:
    """Return the names of weights that the file lacks, for every part that can start gently."""
    missing = {}
    for gently in (part.gentle_start for part in PARTS.values() if part.gentle_start):
        names = [name for name in wanted if gently.weights in name]
        if names and not any(name in given for name in names):
            missing[gently] = names
    return missing


def distinct_weights(model: nn.Module) -> dict[str, Tensor]:
    """Return the state dict with every tensor only once, under its first name.

    A tensor may have several names, as those of Jumbo's shared MLP do.
    """
    others = _shared_names(model)
    return {name: x for name, x in model.state_dict().items() if name not in others}


def _shared_names(model: nn.Module) -> dict[str, str]:
    """Return the first name of a tensor by each of its further names."""
    first: dict[int, str] = {}
    tensors = model.state_dict(keep_vars=True).items()
    return {name: first[id(x)] for name, x in tensors if first.setdefault(id(x), name) != name}


def _fill_shared(given: dict[str, Tensor], model: nn.Module) -> None:
    """Add the tensors of the file under all names that they have in the model."""
    others = _shared_names(model)
    names = sorted({*others, *others.values()})
    by_first_name = {others.get(name, name): given[name] for name in names if name in given}
    for name in names:
        if name not in given and (tensor := by_first_name.get(others.get(name, name))) is not None:
            given[name] = tensor


def _read(path: Path) -> dict[str, Tensor]:
    """Read the tensors of a file by name."""
    if not path.is_file():
        raise UserError(f"there is no file {path} with weights; check the path")
    if path.suffix.lower() in PICKLES:
        return _plain_tensors(_read_pickle(path), path)
    try:
        return load_file(path)
    except SafetensorError as error:
        raise UserError(
            f"{path} is not a safetensors file or is cut off ({error}); download it again"
        ) from error


def _read_pickle(path: Path) -> Any:
    """Read a pickle that contains only tensors and plain containers."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch warns about some protocols before it reads them
            with torch.serialization.safe_globals([*SETTINGS]):
                return torch.load(path, map_location="cpu", weights_only=True)
    except (MemoryError, PermissionError):
        raise
    except Exception as error:  # malformed files raise many classes
        forbidden = re.search(r"GLOBAL ([\w.]+)", str(error))
        holds = f"holds {forbidden[1]}" if forbidden else "is no pickle of tensors, or is cut off"
        raise UserError(
            f"{path} {holds}, and such a pickle can run code; if you trust it, read it with "
            "torch.load(FILE, weights_only=False) and save its tensors with "
            "safetensors.torch.save_file"
        ) from None


def _plain_tensors(content: Any, path: Path) -> dict[str, Tensor]:
    """Return the weights inside the dictionaries in which training scripts save them."""
    for wrapping in WRAPPINGS:
        if isinstance(content, dict) and isinstance(content.get(wrapping), dict):
            content = content[wrapping]
    if not isinstance(content, dict) or not content:
        raise UserError(
            f"{path} holds {content if content == {} else type(content).__name__}, but it must "
            "hold tensors by name; save model.state_dict()"
        )
    wrong = [str(name) for name, value in content.items() if not isinstance(value, Tensor)]
    if wrong:
        raise UserError(
            f"{path} holds other values than tensors: {_name_some(wrong)}; save "
            f"model.state_dict(), alone or under {' or '.join(WRAPPINGS)}"
        )
    return {str(name): value for name, value in content.items()}


def _without_prefix(
    given: dict[str, Tensor], wanted: dict[str, Tensor], path: Path
) -> tuple[dict[str, Tensor], list[str]]:
    """Remove what wrappers put before the names of tensors, and return notes about it.

    DataParallel and DDP add ``module.``; Lightning adds the name of the attribute that holds the
    model. Tensors without this prefix are left out, which a note reports.
    """
    prefixes = Counter(
        name[: match.end()]
        for name in given
        for match in re.finditer(r"^|\.", name)
        if name[match.end() :] in wanted
    )
    complete = [x for x, number in prefixes.items() if number > len(wanted) / 2]
    if "" in complete or not complete:
        return given, []
    if len(complete) > 1:
        raise UserError(
            f"{path} holds the weights of this model {len(complete)} times, under "
            f"{' and '.join(sorted(complete))}; save the ones you want to a separate file"
        )
    prefix = complete[0]
    inside = {x.removeprefix(prefix): given[x] for x in given if x.startswith(prefix)}
    others = [name for name in given if not name.startswith(prefix)]
    note = f"Only the tensors under {prefix} were read, not {_name_some(others)}."
    return inside, [note] if others else []


def _head_names(model: nn.Module, wanted: dict[str, Tensor]) -> list[str]:
    """Return the names of the classifier's weights; timm's models declare where they are."""
    modules = getattr(model, "pretrained_cfg", {}).get("classifier", "head")
    heads = {"head_dist", *([modules] if isinstance(modules, str) else modules)}
    return [name for name in wanted if name.startswith(tuple(f"{x}." for x in heads))]


def _keep_head(given: dict[str, Tensor], wanted: dict[str, Tensor], names: list[str]) -> list[str]:
    """Keep the model's new head if the file has none, or one with another number of classes.

    Returns:
        Notes about this.
    """
    if names and not any(name in given for name in names):
        head = "no classifier head"
    else:
        other = [x for x in names if x in given and len(given[x]) != len(wanted[x])]
        if not other:
            return []
        head = f"a classifier head for {len(given[other[0]])} classes"
    given.update({name: wanted[name] for name in names})
    num_classes = len(wanted[names[-1]])
    return [f"The file has {head}; {', '.join(names)} start afresh for {num_classes} classes."]


def _resample_positions(
    given: dict[str, Tensor], wanted: dict[str, Tensor], model: nn.Module
) -> list[str]:
    """Resample positional embeddings [1, token, width] to the model's grid, and return notes."""
    old, new = given.get(POSITIONS), wanted.get(POSITIONS)
    if old is None or new is None or old.shape == new.shape:
        return []
    grid = _grid(model)
    if grid is None or old.ndim != 3 or old.shape[-1] != new.shape[-1]:
        return []  # the check of shapes will raise the error
    num_prefix = new.shape[1] - grid.num_patches
    side = math.isqrt(max(0, old.shape[1] - num_prefix))
    if side < 1 or side * side != old.shape[1] - num_prefix:
        raise UserError(
            f"the {old.shape[1]} positional embeddings cannot be resampled, because they are not "
            f"{num_prefix} prefix tokens and a square grid; create the model with the image size "
            "of the weights"
        )
    declare_missing_ops()
    from timm.layers import resample_abs_pos_embed

    given[POSITIONS] = resample_abs_pos_embed(
        old, [grid.rows, grid.cols], [side, side], num_prefix_tokens=num_prefix
    )
    return [f"{POSITIONS} was resampled bicubically from {Grid(side, side)} to {grid} patches."]


def _grid(model: nn.Module) -> Grid | None:
    """Return the patch grid of one of our or timm's models, or None if it has none."""
    if isinstance(getattr(model, "grid", None), Grid):
        return model.grid  # type: ignore[return-value]
    size = getattr(getattr(model, "patch_embed", None), "grid_size", None)
    return Grid(*size) if size else None


def _check_names(given: dict[str, Tensor], wanted: dict[str, Tensor], path: Path) -> None:
    """Raise a UserError unless the file has exactly the weights of the model."""
    missing, unexpected = wanted.keys() - given.keys(), given.keys() - wanted.keys()
    if missing or unexpected:
        raise UserError(
            f"the weights in {path} are not those of this model: missing {_name_some(missing)}; "
            f"unexpected {_name_some(unexpected)}; choose the model that the file was made with"
        )


def _check_shapes(given: dict[str, Tensor], wanted: dict[str, Tensor], path: Path) -> None:
    """Raise a UserError unless all weights have the shapes of the model's."""
    wrong = [
        f"{name} {list(given[name].shape)} instead of {list(wanted[name].shape)}"
        for name in wanted
        if given[name].shape != wanted[name].shape
    ]
    if wrong:
        raise UserError(
            f"weights in {path} do not have this model's shapes: {_name_some(wrong)}; "
            "choose the model that the file was made with"
        )


def _check_kinds(given: dict[str, Tensor], wanted: dict[str, Tensor], path: Path) -> None:
    """Raise a UserError about weights that torch would convert silently, or fail to copy midway."""
    kinds = {name: _odd_kind(given[name], wanted[name]) for name in wanted}
    wrong = [f"{name} ({kind})" for name, kind in kinds.items() if kind]
    if wrong:
        raise UserError(
            f"{path} does not contain plain floating-point weights: {_name_some(wrong)}; save the "
            "weights as float32, float16 or bfloat16"
        )


def _check_finite(given: dict[str, Tensor], model: nn.Module, path: Path) -> None:
    """Raise a UserError about weights that are infinite or NaN.

    Buffers, such as masks, may be infinite.
    """
    trained = (name for name, _ in model.named_parameters())
    wrong = [name for name in trained if name in given and not bool(given[name].isfinite().all())]
    if wrong:
        raise UserError(
            f"{path} contains weights that are infinite or not a number: {_name_some(wrong)}; "
            "the file is damaged, or its training diverged; download it again, or use an earlier "
            "checkpoint"
        )


def _odd_kind(given: Tensor, wanted: Tensor) -> str | None:
    """Return a word for why a tensor cannot become a weight of the model; None if it can."""
    if given.is_quantized:
        return "quantised"
    if given.layout != torch.strided:
        return "sparse"
    same = given.is_floating_point() if wanted.is_floating_point() else given.dtype == wanted.dtype
    return None if same else str(given.dtype).removeprefix("torch.")


def _name_some(names: Iterable[str]) -> str:
    """Return the first names in alphabetical order, and how many more there are."""
    ordered = sorted(names)
    more = [f"and {len(ordered) - NUM_NAMED} more"] if len(ordered) > NUM_NAMED else []
    return ", ".join(ordered[:NUM_NAMED] + more) or "none"
