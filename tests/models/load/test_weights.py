"""load_weights: strict but for the head and the grid, both said; no code run, nothing half done."""

from __future__ import annotations

import argparse
import os
import pickle
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from timm.layers import resample_abs_pos_embed
from torch import nn

from nearsight.core import UserError
from nearsight.models.load.registry import create_model
from nearsight.models.load.weights import load_weights


def saved(model: nn.Module, path: Path, **changes: torch.Tensor | None) -> Path:
    """The model's weights in a file, some replaced or (None) left out."""
    weights = {**model.state_dict(), **{k.replace("__", "."): v for k, v in changes.items()}}
    save_file({name: x.contiguous() for name, x in weights.items() if x is not None}, path)
    return path


def equal(one: nn.Module, two: nn.Module, but: tuple[str, ...] = ()) -> bool:
    weights = two.state_dict()
    return all(x.equal(weights[name]) for name, x in one.state_dict().items() if name not in but)


def test_the_same_model_loads_every_weight_and_says_nothing(tmp_path: Path):
    source, model = create_model("mu", 5, num_registers=2), create_model("mu", 5, num_registers=2)
    assert not equal(source, model)
    assert load_weights(model, saved(source, tmp_path / "a.safetensors")) == []
    assert equal(source, model)


@pytest.mark.parametrize("name", ["mu", "vit_tiny_patch16_224"])
def test_a_head_for_other_classes_starts_afresh_and_is_named(name: str, tmp_path: Path):
    options = {"image_size": 32, "patch_size": 8}
    source, model = create_model(name, 11, **options), create_model(name, 7, **options)
    fresh = model.head.weight.clone()
    (change,) = load_weights(model, saved(source, tmp_path / "a.safetensors"))
    assert change == (
        "The file has a classifier head for 11 classes; "
        "head.weight, head.bias start afresh for 7 classes."
    )
    assert model.head.weight.equal(fresh)
    assert equal(source, model, but=("head.weight", "head.bias"))


def test_a_backbone_without_a_head_is_taken_and_said(tmp_path: Path):
    source, model = create_model("mu", 5), create_model("mu", 7)
    path = saved(source, tmp_path / "a.safetensors", head__weight=None, head__bias=None)
    assert load_weights(model, path)[0].startswith("The file has no classifier head; head.weight")


@pytest.mark.parametrize("num_registers", [0, 3])
def test_positions_of_another_grid_are_resampled_as_timm_does(num_registers: int, tmp_path: Path):
    source = create_model("mu", 5, num_registers=num_registers)
    model = create_model("mu", 5, image_size=(24, 40), patch_size=4, num_registers=num_registers)
    changes = load_weights(model, saved(source, tmp_path / "a.safetensors"))
    assert changes == ["pos_embed was resampled bicubically from 8x8 to 6x10 patches."]
    expected = resample_abs_pos_embed(
        source.pos_embed.data, [6, 10], num_prefix_tokens=1 + num_registers
    )
    assert model.pos_embed.data.equal(expected)
    prefix = 1 + num_registers
    assert model.pos_embed[:, :prefix].equal(source.pos_embed[:, :prefix])
    assert equal(source, model, but=("pos_embed",))


def test_half_precision_weights_arrive_in_the_models_precision(tmp_path: Path):
    source, model = create_model("mu", 5).half(), create_model("mu", 5)
    load_weights(model, saved(source, tmp_path / "a.safetensors"))
    assert model.pos_embed.dtype == torch.float32
    assert model.pos_embed.equal(source.pos_embed.float())


def test_positions_of_no_square_grid_are_refused(tmp_path: Path):
    path = saved(create_model("mu", 5, (24, 40), 4), tmp_path / "a.safetensors")
    with pytest.raises(UserError, match=r"61 positional embeddings .* 1 prefix tokens"):
        load_weights(create_model("mu", 5), path)


def test_missing_and_unexpected_names_are_listed_and_nothing_is_loaded(tmp_path: Path):
    source, model = create_model("nano", 5), create_model("mu", 5)
    before = {name: x.clone() for name, x in model.state_dict().items()}
    path = saved(create_model("mu", 5), tmp_path / "a.safetensors", norm__bias=None)
    with pytest.raises(UserError, match=r"missing norm\.bias; unexpected none"):
        load_weights(model, path)
    path = saved(source, tmp_path / "b.safetensors")
    with pytest.raises(UserError, match=r"unexpected blocks\.2.*, and 19 more;"):
        load_weights(model, path)
    assert all(before[name].equal(x) for name, x in model.state_dict().items())


def test_other_shapes_are_listed(tmp_path: Path):
    path = saved(create_model("mu", 5), tmp_path / "a.safetensors", norm__bias=torch.zeros(23))
    with pytest.raises(UserError, match=r"\bnorm\.bias \[23\] .*\[22\]"):
        load_weights(create_model("mu", 5), path)


def test_a_cut_off_file_and_no_file_are_refused_in_one_sentence(tmp_path: Path):
    path = saved(create_model("mu", 5), tmp_path / "a.safetensors")
    path.write_bytes(path.read_bytes()[:-100])
    for wrong, words in (
        (path, r"/a\.safetensors .*\bcut off\b"),
        (tmp_path / "none.safetensors", r"/none\.safetensors\b"),
    ):
        with pytest.raises(UserError, match=words):
            load_weights(create_model("mu", 5), wrong)
    empty = tmp_path / "empty.safetensors"
    empty.write_bytes(b"")
    with pytest.raises(UserError, match=r"/empty\.safetensors\b"):
        load_weights(create_model("mu", 5), empty)


@pytest.mark.parametrize("wrap", [dict, lambda x: {"state_dict": x}, lambda x: {"model": x}])
@pytest.mark.parametrize("prefix", ["", "module.", "model.", "module.model.", "net."])
@pytest.mark.parametrize("as_zip", [True, False])
def test_a_pickle_of_plain_tensors_is_read_in_its_usual_wrappings(
    wrap: Callable[[dict], dict], prefix: str, as_zip: bool, tmp_path: Path
):
    source, model = create_model("mu", 5), create_model("mu", 5)
    tensors = {f"{prefix}{name}": x for name, x in source.state_dict().items()}
    extra = {} if wrap is dict else {"epoch": 3, "lr": [0.1]}
    path = tmp_path / "weights.pth"
    torch.save(wrap(tensors) | extra, path, _use_new_zipfile_serialization=as_zip)
    assert load_weights(model, path) == []
    assert equal(source, model)


def test_a_checkpoint_of_lightning_is_read_without_its_loss_and_settings(tmp_path: Path):
    source, model = create_model("mu", 5), create_model("mu", 5)
    tensors = {f"model.{name}": x for name, x in source.state_dict().items()}
    settings = {"args": argparse.Namespace(lr=0.1, data=Path("images")), "folder": Path("images")}
    content = {
        "epoch": 3,
        "pytorch-lightning_version": "2.6.6",
        "state_dict": {"criterion.weight": torch.ones(5), **tensors, "scale": torch.ones(())},
        "hyper_parameters": settings,
    }
    torch.save(content, tmp_path / "last.ckpt")
    said = load_weights(model, tmp_path / "last.ckpt")
    assert said == ["Only the tensors under model. were read, not criterion.weight, scale."]
    assert equal(source, model)


def test_a_file_with_two_copies_of_the_model_is_refused_by_their_names(tmp_path: Path):
    weights = create_model("mu", 5).state_dict()
    copies = {f"{name}.{key}": x for name in ("student", "teacher") for key, x in weights.items()}
    torch.save(copies, tmp_path / "two.pth")
    with pytest.raises(UserError, match=r"/two\.pth .*\b2 times\b.*\bstudent\. and teacher\."):
        load_weights(create_model("mu", 5), tmp_path / "two.pth")


class Bomb:
    """Unpickled it would write a file."""

    path = ""

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return (Path.touch, (Path(Bomb.path),))


class Command(Bomb):
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return (os.system, (f"touch {Bomb.path}",))


@pytest.mark.parametrize("suffix", [".pt", ".pth", ".bin", ".PT", ".ckpt", ".safetensors"])
@pytest.mark.parametrize("bomb", [Bomb, Command])
def test_a_pickle_of_more_than_tensors_is_refused_and_never_executed(
    suffix: str, bomb: type[Bomb], tmp_path: Path
):
    Bomb.path = str(tmp_path / "exploded")
    path = tmp_path / f"weights{suffix}"
    model = create_model("mu", 5)
    for content in (pickle.dumps(bomb()), pickle.dumps(bomb(), protocol=2), b""):
        path.write_bytes(content)
        with pytest.raises(UserError, match=r"/weights\.\w+ .*(weights_only=False|safetensors)"):
            load_weights(model, path)
    torch.save({"state_dict": model.state_dict(), "args": bomb()}, path)
    with pytest.raises(UserError, match=r"holds (getattr|posix.system),|a safetensors file"):
        load_weights(model, path)
    assert not Path(Bomb.path).exists()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ([torch.zeros(3)], "holds list, .*tensors by name"),
        ({}, "holds {}, "),
        (
            {"epoch": 3, "net": {"norm.bias": torch.zeros(22)}},
            "other values than tensors: epoch, net; ",
        ),
        ({"state_dict": {"a": 1.5}}, "other values than tensors: a;"),
        (argparse.Namespace(lr=0.1), "holds Namespace"),
    ],
)
def test_a_pickle_without_weights_by_name_is_refused(content: object, words: str, tmp_path: Path):
    torch.save(content, tmp_path / "weights.pt")
    with pytest.raises(UserError, match=words):
        load_weights(create_model("mu", 5), tmp_path / "weights.pt")


def test_a_cut_off_pickle_is_refused_in_one_sentence(tmp_path: Path):
    path = tmp_path / "weights.pth"
    torch.save(create_model("mu", 5).state_dict(), path)
    whole = path.read_bytes()
    for length in (len(whole) - 500, 500, 1):
        path.write_bytes(whole[:length])
        with pytest.raises(UserError, match=r"/weights\.pth .*weights_only=False"):
            load_weights(create_model("mu", 5), path)


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        (lambda x: x.long(), "int64"),
        (lambda x: x > 0, "bool"),
        (lambda x: x.to(torch.complex64), "complex64"),
        (lambda x: x.to_sparse(), "sparse"),
    ],
)
def test_weights_that_are_no_plain_numbers_are_refused_and_nothing_is_changed(
    tmp_path: Path, change: Callable[[torch.Tensor], torch.Tensor], kind: str
):
    source, model = create_model("mu", 5), create_model("mu", 5)
    before = {name: x.clone() for name, x in model.state_dict().items()}
    weights = source.state_dict()
    torch.save({**weights, "head.weight": change(weights["head.weight"])}, tmp_path / "a.pt")
    with pytest.raises(UserError, match=rf"head\.weight \({kind}\)"):
        load_weights(model, tmp_path / "a.pt")
    assert all(x.equal(before[name]) for name, x in model.state_dict().items())


def test_half_precision_weights_are_taken(tmp_path: Path):
    source, model = create_model("mu", 5), create_model("mu", 5)
    torch.save({name: x.bfloat16() for name, x in source.state_dict().items()}, tmp_path / "a.pt")
    load_weights(model, tmp_path / "a.pt")
    assert model.head.weight.equal(source.head.weight.bfloat16().float())
