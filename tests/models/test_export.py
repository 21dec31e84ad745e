"""LocAt and ConViT outside eager float32: compiled, exported, in ONNX, and under autocast."""

from __future__ import annotations

import json
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from models import convit_families, locat_families
from models.small_models import FAMILIES, MODELS, built, images_for
from torch import Tensor, nn

from nearsight.models.parts.gpsa import gpsa
from nearsight.models.parts.locat.gaussian import Gaussian

pytestmark = pytest.mark.slow

NEAR = 1e-4  # of logits of the order of 1
TESTS = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module", params=MODELS)
def exported(request: pytest.FixtureRequest) -> tuple[str, torch.export.ExportedProgram]:
    """A model exported at a batch of 3 with a batch that may change."""
    name = request.param
    any_batch = ({0: torch.export.Dim("batch", min=1, max=64)},)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.export.export(built(name), (images_for(name, 3),), dynamic_shapes=any_batch)
    return name, program


@torch.no_grad()
def test_exported_models_give_the_same_logits_for_another_batch(exported):
    name, program = exported
    expected = built(name)(images_for(name, 5))
    assert expected.std() > 0.1
    torch.testing.assert_close(program.module()(images_for(name, 5)), expected, atol=NEAR, rtol=0)


def test_onnx_gives_the_same_logits_for_another_batch(exported):
    for library in ("onnx", "onnxscript", "onnxruntime"):
        pytest.importorskip(library, reason=f"needs {library} of the extra 'onnx'")
    from onnxruntime import InferenceSession

    name, program = exported
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        proto = torch.onnx.export(program, dynamo=True, optimize=False, verbose=False).model_proto
    session = InferenceSession(proto.SerializeToString())
    images = images_for(name, 5)
    (logits,) = session.run(None, {session.get_inputs()[0].name: images.numpy()})
    expected = built(name)(images).detach()
    torch.testing.assert_close(torch.from_numpy(logits), expected, atol=NEAR, rtol=0)


def changes_by_compiling(backend: str, *names: str) -> dict[str, float]:
    command = [sys.executable, "-m", "models.small_models", backend, *names]
    done = subprocess.run(command, capture_output=True, text=True, cwd=TESTS)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_the_compilers_front_takes_every_family_in_one_graph_and_keeps_its_logits():
    """All that a backend gets from torch, without its code generation, which is slow."""
    changes = changes_by_compiling("aot_eager", *FAMILIES)
    assert changes.keys() == FAMILIES.keys()
    assert {name: change for name, change in changes.items() if not change < NEAR} == {}


def test_a_compiled_vit_gives_the_same_logits():
    """By inductor, the default backend, which takes 20 s for a model of 2 blocks."""
    from torch._inductor.cpp_builder import get_cpp_compiler
    from torch._inductor.exc import InvalidCxxCompiler

    try:
        get_cpp_compiler()
    except (InvalidCxxCompiler, RuntimeError):
        pytest.skip("no C++ compiler, which torch.compile needs on CPU")
    assert changes_by_compiling("inductor", "ViT")["ViT"] < NEAR


half_precision = pytest.mark.parametrize(
    ("dtype", "near"), [(torch.bfloat16, 0.05), (torch.float16, 0.01)], ids=["bf16", "fp16"]
)


def check_autocast(name: str, model: nn.Module, dtype: torch.dtype, near: float) -> None:
    """Logits within ``near`` deviations of float32's, and gradients that are numbers."""
    images = images_for(name, 3)
    expected = built(name)(images).detach()
    with torch.autocast("cpu", dtype):
        logits = model(images)
        loss = F.cross_entropy(logits, torch.tensor([1, 4, 7]))
    assert (logits - expected).abs().max() < near * expected.std()
    loss.backward()
    assert all(weight.grad.isfinite().all() for weight in model.parameters())


@half_precision
@pytest.mark.parametrize("name", [*locat_families.FAMILIES, *locat_families.VARIANTS])
def test_autocast_is_near_float32_and_makes_the_gaussian_in_float32(
    name: str, dtype: torch.dtype, near: float
):
    model = built(name)
    biases = []
    for module in model.modules():
        if isinstance(module, Gaussian):
            module.register_forward_hook(lambda _, inputs, bias: biases.extend(bias))
            module.register_forward_pre_hook(lambda _, inputs: seen.add(inputs[0].dtype))
    seen: set[torch.dtype] = set()
    check_autocast(name, model, dtype, near)
    assert seen == {dtype}
    assert {bias.dtype for bias in biases} == {torch.float32}


@half_precision
@pytest.mark.parametrize("name", convit_families.FAMILIES)
def test_autocast_is_near_float32_and_looks_around_by_shares_made_in_float32(
    name: str, dtype: torch.dtype, near: float, monkeypatch: pytest.MonkeyPatch
):
    met, look_around = [], gpsa.look_around

    def watched(values: Tensor, positional: gpsa.Positional) -> Tensor:
        met.append((values.dtype, positional.rows.dtype, positional.cols.dtype))
        return look_around(values, positional)

    model = built(name)
    monkeypatch.setattr(gpsa, "look_around", watched)
    check_autocast(name, model, dtype, near)
    in_full = (torch.float32,) * 3  # of the model that it is compared with
    assert met == ([] if name == "PSA" else [in_full, (dtype, torch.float32, torch.float32)])
