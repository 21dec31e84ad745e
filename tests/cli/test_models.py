"""nearsight models: our names, what one costs, and one sentence for every mistake."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from nearsight.measure.coverage import ModelRow, survey
from nearsight.models.load.registry import check_name

Answer = tuple[int, str, str]


def test_alone_it_lists_our_names_and_how_to_name_others(nearsight: Callable[..., Answer]):
    code, out, err = nearsight("models")
    assert (code, err) == (0, "")
    assert max(map(len, out.splitlines())) <= 80
    ours = ("compact_vit", "_locat", "locatvit_base", "locatjumbo_tiny", "_convit", "deit_base")
    for name in (*ours, "timm", "hf/FOLDER"):
        assert name in out


def test_every_name_it_lists_can_be_built(nearsight: Callable[..., Answer]):
    names = json.loads(nearsight("models", "--json")[1])
    assert len(names) > 20
    for name in names:
        check_name(name)


@pytest.mark.slow
def test_a_model_with_locat_stands_beside_its_backbone(nearsight: Callable[..., Answer]):
    words = ["mu_locat", "--image-size", "24x40", "--set", "patch_size=4", "--set", "num_classes=7"]
    code, out, err = nearsight("models", *words)
    assert (code, err) == (0, "")
    assert max(map(len, out.splitlines())) <= 80
    lines = {line.split("  ")[0]: line.split()[-3:] for line in out.splitlines()}
    assert lines["parameters"] == ["11,127", "11,055", "+72"]
    added = 3 * 12 * 2 * 2 * 60 + 2 * 61 * 61 * 22  # GAug with its biases, PRR in full
    assert lines["paper's unit, M"][2] == f"{added / 1e6:+.3f}"
    assert "61 tokens: 1 prefix token and 6x10 patches" in " ".join(out.split())
    found = json.loads(nearsight("models", *words, "--json")[1])
    assert found["paper_unit"] - found["plain"]["paper_unit"] == added
    assert found["num_locat_parameters"] == 72
    assert (found["num_classes"], found["image_size"]) == (7, [24, 40])


@pytest.mark.slow
def test_a_convit_stands_beside_itself_without_gpsa(nearsight: Callable[..., Answer]):
    words = ["convit_tiny", "--image-size", "48x80", "--set", "depth=3"]
    code, out, err = nearsight("models", *words)
    assert (code, err) == (0, "")
    assert max(map(len, out.splitlines())) <= 80
    assert "without GPSA" in out
    assert "LocAt" not in out.replace("LocAt's table 1", "")
    lines = {line.split("  ")[0]: line.split()[-3:] for line in out.splitlines()}
    assert lines["parameters"][2] == f"+{4 * (3 + 1) + 4}"  # positions with their bias, and gates
    found = json.loads(nearsight("models", *words, "--json")[1])
    by_position, less_prefix = 15 * (3 + 5) * 192, 12 * 192**2 + 2 * (16**2 - 15**2) * 192
    assert found["macs"] - found["plain"]["macs"] == by_position - less_prefix
    assert (found["num_prefix"], found["num_gpsa_parameters"]) == (1, 20)


@pytest.mark.slow
def test_options_are_typed_by_yaml(nearsight: Callable[..., Answer]):
    words = ["--set", "gaussian=false", "--set", "num_registers=2", "--json"]
    found = json.loads(nearsight("models", "mu_locat", *words)[1])
    assert (found["kernel_operations"], found["num_prefix"]) == (0, 3)
    assert found["paper_unit"] - found["plain"]["paper_unit"] == 2 * 67 * 67 * 22
    words = ["--set", "gaussian={isotropic: true}", "--set", "refine=no", "--json"]
    found = json.loads(nearsight("models", "mu_locat", *words)[1])
    assert found["num_locat_parameters"] == 2 * (2 * 11 + 2)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["locatvit_tinny"], "did you mean locatvit_tiny"),
        (["torchvision/vit_b16"], "did you mean vit_b_16"),
        (["hf/./nowhere"], "there is no folder ./nowhere"),
        (["mu", "--image-size", "many"], "--image-size is 'many', but it must be N or HxW"),
        (["mu", "--image-size", "31"], "divisible by the patch size 3"),
        (["torchvision/vit_b_16", "--image-size", "64x128"], "Expected 224 but got 64"),
        (["mu", "--set", "reg_tokens"], "not of the form KEY=VALUE"),
        (["mu", "--set", "reg tokens=3"], "the name of an option before the ="),
        (["mu", "--set", "reg_tokens=[3"], "is not valid YAML"),
        (["mu", "--set", "image_size=48"], "image_size: use --image-size"),
        (["mu", "--set", "pretrained=true"], "weights do not change"),
        (["mu", "--set", "colour=blue"], "has no option colour"),
        (["vit_tiny_patch16_224", "--set", "colour=blue"], "unexpected keyword argument 'colour'"),
        (["vit_tiny_patch16_224", "--set", "embed_dim=7"], "embed_dim=7 (dim should be divisible"),
        (["vit_tiny_patch16_224", "--set", "patch_size=0"], "cannot build and run"),
        (["--image-size", "64"], "need the name of a model"),
    ],
)
@pytest.mark.slow
def test_a_mistake_gets_one_sentence(
    nearsight: Callable[..., Answer], words: list[str], sentence: str
):
    code, out, err = nearsight("models", *words)
    assert (code, out) == (1, "")
    assert len(err.splitlines()) == 1
    assert sentence in err


def test_a_model_that_crashes_makes_coverage_fail_and_is_tried_again(
    nearsight: Callable[..., Answer], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcomes = {"timm/coat_tiny": ["crashed", "refused"]}

    def attempt(name: str) -> ModelRow:
        return ModelRow(name, outcomes.get(name, ["measured"]).pop(0))

    monkeypatch.setattr(survey, "_in_process", attempt)
    command = ("models", "coverage", "--sample", "--out", str(tmp_path))
    code, out, err = nearsight(*command)
    assert code == 1
    assert "1 of 10 models" in err
    assert "timm/coat_tiny" in err
    assert "9 measured, 0 refused, 1 crashed" in out
    code, out, _ = nearsight(*command)
    assert code == 0
    assert "9 measured, 1 refused, 0 crashed" in out
