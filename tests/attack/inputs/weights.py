"""Damaged and hostile weight files and folders of Hugging Face models."""

from __future__ import annotations

import io
import json
import pickle
import zipfile
from functools import cache
from pathlib import Path
from typing import Any

import torch
from attack.attack import Attack
from attack.guard import CANARY
from attack.inputs.damage import byte_damages, damaged_bytes, damaged_json, json_damages
from attack.material import room
from attack.verdicts import ACCEPTED, REFUSED, Verdict, unnoticed, verdict_of
from hypothesis import strategies as some
from safetensors.torch import load_file, save, save_file


class Payload:
    """An object whose unpickling runs code."""

    def __init__(self, what: str) -> None:
        self.what = what

    def __reduce__(self) -> Any:
        import os

        calls = {
            "exec": (exec, (f"import sys; sys.{CANARY} = True",)),
            "system": (os.system, (f"echo > {CANARY}",)),
            "eval": (eval, (f"__import__('sys').__dict__.update({CANARY}=True)",)),
        }
        return calls[self.what]


SUFFIXES = ("safetensors", "pt", "pth", "bin", "ckpt", "pkl", "pickle", "tar", "npz", "onnx", "")
TENSORS = {
    "int64": lambda x: x.long(), "bool": lambda x: x > 0, "uint8": lambda x: x.byte(),
    "complex": lambda x: x.to(torch.complex64), "double": lambda x: x.double(),
    "half": lambda x: x.half(), "sparse": lambda x: x.to_sparse(),
    "nan": lambda x: x * float("nan"),
    "short": lambda x: x[:-1], "flat": lambda x: x.flatten(), "empty": lambda x: x[:0],
    "scalar": lambda x: x.sum(), "text": lambda x: "x", "none": lambda x: None,
    "list": lambda x: [1],
    "number": lambda x: 3.0, "huge": lambda x: torch.full_like(x, 1e38) * 10,
}  # fmt: skip


@cache
def _model() -> Any:
    from nearsight.models.load import create_model

    torch.manual_seed(5)
    return create_model("mu")


@cache
def _whole() -> dict[str, torch.Tensor]:
    return {name: x.clone() for name, x in _model().state_dict().items()}


def _load(path: Path) -> Verdict:
    """Load a file into a model; a refusal changes nothing, what is accepted is finite."""
    from nearsight.models.load import load_weights

    model = _model()
    model.load_state_dict(_whole())
    verdict = verdict_of(lambda: load_weights(model, path))
    now = model.state_dict()
    if verdict.what == REFUSED and any(not torch.equal(now[x], y) for x, y in _whole().items()):
        return unnoticed(f"refused, but the model was changed: {verdict.text[:200]}")
    if verdict.what == ACCEPTED and not all(bool(x.isfinite().all()) for x in now.values()):
        return unnoticed("weights that are not finite were taken")
    return verdict


def _damaged(case: tuple[str, str, list], place: Path) -> Verdict:
    """Damage the bytes of a weights file."""
    kind, suffix, damages = case
    if kind == "safetensors":
        content = save(_whole())
    else:
        buffer = io.BytesIO()
        torch.save(_whole(), buffer, _use_new_zipfile_serialization=kind == "zip")
        content = buffer.getvalue()
    for damage in damages:
        content = damaged_bytes(content, damage)
    path = place / f"w.{suffix}"
    path.write_bytes(content)
    return _load_or_skip_numbers(path, content)


def _load_or_skip_numbers(path: Path, content: bytes) -> Verdict:
    verdict = _load(path)
    if verdict.what == "silent" and "not finite" in verdict.text and _is_right(path):
        return Verdict(ACCEPTED, "the file says so itself")  # the numbers have no checksum
    return verdict


def _is_right(path: Path) -> bool:
    """Whether the model has just what an independent reader finds in the file."""
    try:
        found = load_file(path)
    except Exception:
        found = torch.load(path, weights_only=True)
    model = _model().state_dict()
    return all(torch.equal(model[x].nan_to_num(), y.nan_to_num()) for x, y in found.items())


def _changed(case: tuple[str, str, str, int], place: Path) -> Verdict:
    """Give one tensor another kind, or another name."""
    change, form, wrapping, at = case
    given: dict[str, Any] = dict(_whole())
    name = sorted(given)[at % len(given)]
    if change == "flat" and given[name].ndim == 1:
        return Verdict(ACCEPTED, "it is flat already")
    if change in TENSORS:
        given[name] = TENSORS[change](given[name])
    elif change == "missing":
        del given[name]
    elif change == "renamed":
        given[f"{name}x"] = given.pop(name)
    elif change == "doubled":
        given |= {f"module.{x}": y for x, y in given.items()}
    elif change == "number name":
        given[7] = given.pop(name)  # type: ignore[index]
    else:
        given[name] = Payload(change)
    path = place / f"w.{form}"
    if form == "safetensors":
        tensors = {str(x): y for x, y in given.items() if isinstance(y, torch.Tensor)}
        try:
            save_file({x: y.contiguous() for x, y in tensors.items()}, path)
        except Exception:
            return Verdict(ACCEPTED, "safetensors cannot write it")
    elif form == "pkl":
        path.write_bytes(pickle.dumps({wrapping: given} if wrapping else given))
    else:
        torch.save({wrapping: given, "epoch": 3} if wrapping else given, path)
    verdict = _load(path)
    fine = ("double", "half", "doubled", "number name")
    if verdict.what == ACCEPTED and change not in fine:
        if form == "safetensors" and len(tensors) == len(given) and change in ("huge", "nan"):
            return unnoticed(f"a tensor that is {change} was taken")
        if change not in ("text", "none", "list", "number"):
            return unnoticed(f"a tensor that is {change} was taken from a {form} file")
    return verdict


def _code(case: tuple[str, str, bool], place: Path) -> Verdict:
    """A pickle whose reading runs code, under any name, plain or in torch's zip."""
    what, suffix, zipped = case
    path = place / f"w.{suffix}"
    content = pickle.dumps(Payload(what))
    if zipped:
        with zipfile.ZipFile(path, "w") as packed:
            packed.writestr("archive/data.pkl", content)
            packed.writestr("archive/version", "3")
    else:
        path.write_bytes(content)
    verdict = _load(path)
    return unnoticed("a pickle of code was taken") if verdict.what == ACCEPTED else verdict


TINY = {
    "hidden_size": 22, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 31,
    "image_size": 32, "patch_size": 16,
}  # fmt: skip
PROCESSOR = {
    "image_processor_type": "ViTImageProcessor", "do_resize": True, "size": {"height": 32,
    "width": 32},
    "resample": 2, "do_rescale": True, "rescale_factor": 1 / 255, "do_normalize": True,
    "image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5],
}  # fmt: skip


@cache
def _repository() -> dict[str, bytes]:
    """Return the files of a small Hugging Face model by name."""
    import transformers

    transformers.utils.logging.disable_progress_bar()
    folder = room() / "hub"
    transformers.ViTModel(transformers.ViTConfig(**TINY)).save_pretrained(folder)
    (folder / "preprocessor_config.json").write_text(json.dumps(PROCESSOR))
    return {x.name: x.read_bytes() for x in folder.iterdir()}


HOSTILE_CONFIG = {
    "auto_map": {"AutoConfig": "code.Config", "AutoModel": "code.Model"}, "trust_remote_code": True,
    "model_type": "nope",
}  # fmt: skip
CODE = f"import sys\nsys.{CANARY} = True\nclass Config: pass\nclass Model: pass\n"


def _hub_folder(case: tuple[str, list, list, bool], place: Path) -> Verdict:
    """Damage a file of a Hugging Face folder, which may also bring code."""
    from nearsight.models.load.named import named_model

    name, damages, bytes_, hostile = case
    folder = place / "model"
    folder.mkdir()
    for file, content in _repository().items():
        (folder / file).write_bytes(content)
    if hostile:
        (folder / "code.py").write_text(CODE)
        (folder / "modeling.py").write_text(CODE)
        config = json.loads((folder / "config.json").read_bytes()) | HOSTILE_CONFIG
        (folder / "config.json").write_text(json.dumps(config))
    path = folder / name
    if name == "pytorch_model.bin":
        (folder / "model.safetensors").unlink()
        path.write_bytes(pickle.dumps(Payload("exec")))
    elif name.endswith(".json"):
        path.write_bytes(damaged_json(json.loads(path.read_bytes()), damages))
    else:
        content = path.read_bytes()
        for damage in bytes_:
            content = damaged_bytes(content, damage)
        path.write_bytes(content)

    def use() -> None:
        found = named_model(f"hf/{folder}")
        from nearsight.measure.folders.model_folder import check_fit

        size = found.preprocessing.crop
        assert size is not None
        if max(size) <= 256:
            check_fit(found.model, size, "hf", "cpu")
            pixels = torch.zeros(1, 3, *size, dtype=torch.uint8)
            normalised = found.preprocessing.normalise(pixels)
            if not bool(normalised.isfinite().all()):
                raise AssertionError("the preprocessing gives numbers that are not finite")

    return verdict_of(use)


DAMAGES = some.lists(byte_damages(), min_size=1, max_size=2)
ATTACKS = (
    Attack(
        "damaged weights",
        some.tuples(
            some.sampled_from(("safetensors", "zip", "pickle")),
            some.sampled_from(SUFFIXES), DAMAGES
        ),
        _damaged,
        share=5,
    ),
    Attack(
        "odd weights",
        some.tuples(
            some.sampled_from((*TENSORS, "missing", "renamed", "doubled", "number name", "exec",
            "system")),
            some.sampled_from(("safetensors", "pt", "pkl", "bin")),
            some.sampled_from(("", "state_dict", "model")),
            some.integers(0, 40),
        ),
        _changed,
        share=4,
    ),
    Attack(
        "pickles with code",
        some.tuples(
            some.sampled_from(("exec", "system", "eval")),
            some.sampled_from(SUFFIXES),
            some.booleans(),
        ),
        _code,
        share=1,
    ),
    Attack(
        "Hugging Face folders",
        some.tuples(
            some.sampled_from(
                ("config.json", "config.json", "preprocessor_config.json", "model.safetensors",
                 "pytorch_model.bin")
            ),
            some.lists(json_damages(), min_size=1, max_size=2),
            DAMAGES,
            some.booleans(),
        ),
        _hub_folder,
        share=3,
    ),
)  # fmt: skip


def warm() -> None:
    """Load what a first attempt would load."""
    from nearsight.models.load.named import named_model

    _model()
    _repository()
    named_model(f"hf/{room() / 'hub'}")
