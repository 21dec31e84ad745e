"""Models of transformers: the vision tower with its weights, and no code of others."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from nearsight.core import UserError
from nearsight.models.load.named import named_model
from nearsight.models.load.registry import create_model

transformers = pytest.importorskip("transformers", reason="needs the extra hf")

TINY = {
    "hidden_size": 22, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 31,
    "image_size": 48, "patch_size": 16,
}  # fmt: skip
TEXT = {
    "hidden_size": 14, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 13,
    "vocab_size": 101, "bos_token_id": 0, "eos_token_id": 1,
}  # fmt: skip


def saved(model: Any, folder: Path) -> Any:
    transformers.utils.logging.disable_progress_bar()
    model.save_pretrained(folder)
    return model.eval()


@pytest.mark.parametrize("family", ["ViT", "Dinov2", "DeiT"])
def test_a_folder_gives_the_model_with_its_weights(family: str, tmp_path: Path):
    config = getattr(transformers, f"{family}Config")(**TINY)
    source = saved(getattr(transformers, f"{family}Model")(config), tmp_path)
    found = named_model(f"hf/{tmp_path}")
    assert (found.weights, found.source) == ("pretrained", "hf")
    assert found.model.config._attn_implementation == "sdpa"
    images = torch.randn(2, 3, 48, 48)
    assert torch.equal(found.model(images)[0], source(images)[0])
    fresh = create_model(f"hf/{tmp_path}")
    assert not torch.equal(fresh.eval()(images)[0], source(images)[0])


def test_a_classifiers_backbone_is_taken_without_its_pooler(tmp_path: Path):
    source = saved(transformers.ViTForImageClassification(transformers.ViTConfig(**TINY)), tmp_path)
    images = torch.randn(2, 3, 48, 48)
    found = named_model(f"hf/{tmp_path}").model(images).last_hidden_state
    assert torch.equal(found, source.vit(images).last_hidden_state)


@pytest.mark.parametrize("family", ["CLIP", "Siglip"])
def test_of_two_towers_the_vision_one_is_taken(family: str, tmp_path: Path):
    config = getattr(transformers, f"{family}Config")(
        vision_config=dict(TINY), text_config=dict(TEXT)
    )
    source = saved(getattr(transformers, f"{family}Model")(config), tmp_path)
    processor = transformers.CLIPImageProcessor(size={"shortest_edge": 61}, crop_size=48)
    processor.save_pretrained(tmp_path)
    found = named_model(f"hf/{tmp_path}")
    images = torch.randn(2, 3, 48, 48)
    expected = source.vision_model(images).last_hidden_state
    assert torch.equal(found.model(images).last_hidden_state, expected)
    assert (found.preprocessing.resize, found.preprocessing.crop) == ((61, 61), (48, 48))
    assert found.preprocessing.source == "the image processor of the repository"


def test_half_precision_is_measured_in_float32(tmp_path: Path):
    source = saved(transformers.ViTModel(transformers.ViTConfig(**TINY)).half(), tmp_path)
    found = dict(named_model(f"hf/{tmp_path}").model.named_parameters())
    assert all(x.dtype == torch.float32 for x in found.values())
    assert all(found[name].equal(x.float()) for name, x in source.named_parameters())


def test_without_an_image_processor_the_models_size_is_taken_and_said(tmp_path: Path):
    saved(transformers.ViTModel(transformers.ViTConfig(**TINY)), tmp_path)
    steps = named_model(f"hf/{tmp_path}").preprocessing
    assert steps.crop == (48, 48)
    assert "no image processor" in steps.source


def test_missing_weights_are_named(tmp_path: Path):
    saved(transformers.ViTModel(transformers.ViTConfig(**TINY)), tmp_path)
    path = tmp_path / "model.safetensors"
    weights = load_file(path)
    names = [name for name in weights if "layer" in name and "query" in name]
    save_file({k: v for k, v in weights.items() if k not in names}, path, {"format": "pt"})
    with pytest.raises(UserError, match=r"\bViTModel\b.*\.q_proj\.weight\b"):
        named_model(f"hf/{tmp_path}")


def test_weights_from_a_file_and_random_initialisation_work_too(tmp_path: Path):
    source = saved(transformers.ViTModel(transformers.ViTConfig(**TINY)), tmp_path)
    path = tmp_path / "other.safetensors"
    changed = {name: (x + 1).contiguous() for name, x in source.state_dict().items()}
    save_file(changed, path)
    found = named_model(f"hf/{tmp_path}", path)
    assert found.weights == "file"
    assert all(x.equal(changed[name]) for name, x in found.model.state_dict().items())
    fresh = named_model(f"hf/{tmp_path}", random_init=True, image_size=(32, 64))
    assert fresh.weights == "random initialisation"
    assert fresh.preprocessing.crop == (32, 64)


def test_what_is_no_vision_model_is_refused(tmp_path: Path):
    text = {key: value for key, value in TEXT.items() if key != "bos_token_id"}
    saved(transformers.BertModel(transformers.BertConfig(**text)), tmp_path / "bert")
    with pytest.raises(UserError, match="BertModel takes input_ids"):
        named_model(f"hf/{tmp_path / 'bert'}")
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match="Unrecognized model"):
        named_model(f"hf/{tmp_path / 'empty'}")
    with pytest.raises(UserError, match=r"/nowhere .*hf/OWNER/NAME"):
        named_model(f"hf/{tmp_path / 'nowhere'}")


def test_code_of_a_repository_is_never_run(tmp_path: Path):
    written = tmp_path / "exploded"
    (tmp_path / "bomb.py").write_text(
        "from transformers import PretrainedConfig\n"
        f"open({str(written)!r}, 'w').write('x')\n"
        "class Bomb(PretrainedConfig):\n    model_type = 'bomb'\n"
    )
    config = {"model_type": "bomb", "auto_map": {"AutoConfig": "bomb.Bomb"}}
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(UserError, match=r"custom code|trust_remote_code"):
        named_model(f"hf/{tmp_path}")
    assert not written.exists()


def test_without_the_extra_the_command_to_install_it_is_given(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("nearsight.models.load.huggingface.find_spec", lambda name: None)
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(UserError, match=r"\btransformers\b.*\bpip install '\.\[hf\]'"):
        named_model("hf/facebook/dinov2-small")
