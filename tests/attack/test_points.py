"""What was once found by hand (points 11 and 12 of the list of defects): each stays mended."""

from __future__ import annotations

import json
import lzma
import os
import shutil
import signal
import zlib
from collections.abc import Callable
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
import torch
from attack.inputs.damage import JsonDamage, damaged_json
from attack.inputs.weights import PROCESSOR, TINY
from attack.material import data_root, example_runs, example_study, images, trained
from PIL import Image
from torch import nn

import nearsight as ns
from nearsight.core import UserError
from nearsight.core.terminal import UNPRINTABLE

Command = Callable[..., tuple[int, str, str]]
pytestmark = [pytest.mark.training, pytest.mark.filterwarnings("ignore")]


def training(*settings: str) -> list[str]:
    """Return the words that train a small model into ``run`` with these settings."""
    words = ["train", "baseline", "--data", str(images()), "--model", "mu", "--out", "run"]
    words += ["--data-root", str(data_root()), "--device", "cpu"]
    changes = ("data.image_size=16", *settings)
    return words + [word for change in changes for word in ("--set", change)]


def refusal(command: Command, *words: str) -> str:
    """Run a command that must be refused in one sentence, and return the sentence."""
    code, _, said = command(*words)
    assert code in (1, 2), said
    assert said.strip()
    assert "Traceback" not in said
    assert len(said) < 1000
    return said


@pytest.mark.parametrize(
    ("setting", "told"),
    [
        ("model.width=1000000000", "there is not enough memory"),
        ("data.split_seed=1" + "0" * 30, "data.split_seed"),
        ("repeats=1" + "0" * 30, "repeats"),
        ("crop_padding=1" + "0" * 30, "crop_padding"),
        ("model.locat={gaussian: {width: 1e300}}", "width"),
        ("epochs=" + "[" * 3000, "setting epochs"),
        ("name=\ud800", "name"),
        ("model.num_heads=0", "num_heads"),
        ("model.patch_size=0", "patch_size"),
    ],
)
def test_a_setting_that_is_too_large_too_deep_or_no_text_is_named(
    setting: str, told: str, nearsight: Command
):
    said = refusal(nearsight, *training(setting, "epochs=1"))
    assert told in said
    assert not Path("run").exists()  # nothing is left, no lock either


def test_images_that_are_too_large_for_the_memory_are_said(nearsight: Command):
    words = ("measure", "mu", "--random-init", "--images", str(images()), "--num-images", "2")
    assert "memory" in refusal(nearsight, *words, "--image-size", "400000x400000")


def test_a_number_of_threads_that_would_crash_is_refused(nearsight: Command):
    assert "1024" in refusal(nearsight, "doctor", "--threads", "100000")


def test_a_folder_of_a_measured_model_is_not_trained_into(nearsight: Command):
    shutil.copytree(example_runs() / "m", "run")
    before = sorted(x.name for x in Path("run").iterdir())
    assert "contains the measurement of a model" in refusal(nearsight, *training())
    assert sorted(x.name for x in Path("run").iterdir()) == before


@pytest.mark.parametrize(
    "words", [("data", "check"), ("data", "import"), ("measure", "mu", "--images")]
)
def test_an_unknown_user_is_named(words: tuple[str, ...], nearsight: Command):
    assert "nosuchuser" in refusal(nearsight, *words, "~nosuchuser/x")


def test_an_unknown_tag_of_timm_is_named(nearsight: Command):
    words = ("measure", "vit_tiny_patch16_224.nope", "--images", str(images()), "--random-init")
    assert "nope" in refusal(nearsight, *words)


def test_brackets_in_a_level_are_printed_as_they_are(nearsight: Command):
    Path("mine.py").write_text(
        '"""Brackets?"""\nfrom dataclasses import replace\nfrom nearsight.protocol import preset\n'
        "from nearsight.study.design.recipe_file import Condition, Study\n"
        f'protocol = preset("baseline", "folder:{images()}", "mu")\n'
        "def study():\n"
        "    longer = replace(protocol, epochs=7)\n"
        '    conditions = {"[/x]": protocol, "[cls]": longer}.items()\n'
        '    return Study(tuple(Condition({"x": name}, each) for name, each in conditions))\n'
    )
    code, out, said = nearsight("study", "plan", "mine.py", "--data-root", str(data_root()))
    assert code == 0, said
    assert "[/x]" in out
    assert "[cls]" in out


@pytest.mark.parametrize("body", ["1 / 0", "return 3", "return study()", "raise SystemExit(0)"])
def test_a_recipe_that_fails_is_named(body: str, nearsight: Command):
    Path("mine.py").write_text(f'"""Why?"""\ndef study():\n    {body}\n')
    assert "mine" in refusal(nearsight, "study", "plan", "mine.py")


@pytest.mark.parametrize("command", ["claims", "report"])
def test_a_cell_without_its_log_is_named(command: str, nearsight: Command):
    shutil.copytree(example_study(), "study")
    cell = sorted(Path("study/cells").iterdir())[0]
    (cell / "train.jsonl").unlink()
    said = refusal(nearsight, "study", command, "study")
    assert "train.jsonl" in said
    assert cell.name in said


@pytest.mark.parametrize("lines", [None, slice(0, -1), slice(1, None), slice(0, 0)])
@pytest.mark.parametrize("command", ["report", "diff", "explore"])
def test_a_finished_run_without_its_whole_log_is_refused(
    command: str, lines: slice | None, nearsight: Command
):
    shutil.copytree(trained(), "run")
    shutil.copytree("run", "other")
    path = Path("run/train.jsonl")
    whole = path.read_bytes().splitlines(keepends=True)
    path.unlink()
    if lines is not None:
        path.write_bytes(b"".join(whole[lines]))
    others = {"report": ("--out", "page.html"), "diff": ("other",), "explore": ()}[command]
    assert "train.jsonl" in refusal(nearsight, command, "run", *others)


@pytest.mark.parametrize("name", ["name", "epochs", "model", "data", "optimizer"])
@pytest.mark.parametrize("value", [None, []])
def test_a_setting_that_a_report_needs_is_named(name: str, value: object, nearsight: Command):
    shutil.copytree(example_runs() / "a", "a")
    path = Path("a/run.json")
    contents = json.loads(path.read_bytes())
    del contents["protocol"][name]
    if value is not None:
        contents["protocol"][name] = value
    path.write_text(json.dumps(contents))
    said = refusal(nearsight, "report", "a")
    assert "protocol" in said
    assert name in said


def test_answers_whose_header_is_no_python_are_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    from nearsight.runs.answers import ANSWERS, read_answers

    shutil.copytree(trained(), "run")
    path = Path("run") / ANSWERS
    content = path.read_bytes()
    for at in range(len(content)):
        path.write_bytes(content[:at] + b'"{,\xff\x00' + content[at:])
        with pytest.raises(UserError, match=ANSWERS):
            read_answers(Path("run"), 33)


def test_a_number_of_the_summary_that_is_another_object_is_named(nearsight: Command):
    shutil.copytree(example_runs() / "a", "a")
    path = Path("a/measure.json")
    damage = JsonDamage("like", 262_145)  # found by the attack
    path.write_bytes(damaged_json(json.loads(path.read_bytes()), [damage]))
    assert "most_local_self_mass" in refusal(nearsight, "report", "a")


@pytest.mark.parametrize(
    "change", [{"image_std": [0, 0, 0]}, {"rescale_factor": 0}, {"image_mean": []}]
)
def test_an_image_processor_that_divides_by_zero_is_refused(change: dict, tmp_path: Path):
    transformers = pytest.importorskip("transformers", reason="needs the extra hf")
    transformers.utils.logging.disable_progress_bar()
    transformers.ViTModel(transformers.ViTConfig(**TINY)).save_pretrained(tmp_path)
    path = tmp_path / "preprocessor_config.json"
    path.write_text(json.dumps(PROCESSOR | change))
    from nearsight.models.load.named import named_model

    with pytest.raises(UserError, match=r"preprocessor|image processor"):
        named_model(f"hf/{tmp_path}")


def test_a_broken_image_processor_is_not_replaced_by_imagenets_values(tmp_path: Path):
    transformers = pytest.importorskip("transformers", reason="needs the extra hf")
    transformers.utils.logging.disable_progress_bar()
    transformers.ViTModel(transformers.ViTConfig(**TINY)).save_pretrained(tmp_path)
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(PROCESSOR | {"image_mean": "x"}))
    from nearsight.models.load.named import named_model

    with pytest.raises(UserError, match="image processor"):
        named_model(f"hf/{tmp_path}")


@pytest.mark.parametrize("problem", [zlib.error("x"), lzma.LZMAError("x"), RuntimeError("x")])
def test_an_archive_that_cannot_be_decompressed_is_named(problem: Exception, tmp_path: Path):
    from attack.inputs.archives import FOLDER, _archive, _offered

    from nearsight.data.fetch import archive, import_folder

    content = _archive()
    (tmp_path / "given").write_bytes(content)
    with (
        _offered(content),
        patch.object(archive.shutil, "copyfileobj", side_effect=problem),
        pytest.raises(UserError, match="given"),
    ):
        import_folder(tmp_path / "given", tmp_path / "root")
    assert not (tmp_path / "root" / FOLDER).exists()


@pytest.mark.parametrize("out", ["", ".", "/"])
@pytest.mark.parametrize("command", ["report", "explore"])
def test_a_page_without_a_name_is_refused(command: str, out: str, nearsight: Command):
    shutil.copytree(example_runs() / "a", "a")
    assert refusal(nearsight, command, "a", "--out", out)


@pytest.mark.parametrize("words", [(), ("report",), ("measure",), ("maps",), ("explore",)])
def test_a_long_word_is_not_repeated_as_a_whole(words: tuple[str, ...], nearsight: Command):
    others = ("--images", str(images())) if words in (("measure",), ("maps",)) else ()
    assert "xxx" in refusal(nearsight, *words, "x" * 100_000, *others)


class OnePatch(nn.Module):
    """Attention of one patch, which has no distance to anything."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 16, 8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.patches(x).flatten(2).mT.unflatten(2, (2, 8)).transpose(1, 2)
        return nn.functional.scaled_dot_product_attention(x, x, x)


def test_one_patch_is_refused_with_the_true_reason():
    with pytest.raises(UserError, match="attends to a single token"):
        ns.measure_model(OnePatch(), torch.randn(3, 3, 8, 8))


@pytest.mark.parametrize(
    ("value", "told"), [(float("nan"), "finite|0 to 1"), (1e308, "0 to 1"), (-0.5, "0 to 1")]
)
def test_impossible_numbers_are_not_printed(value: float, told: str, nearsight: Command):
    shutil.copytree(example_runs() / "a", "a")
    path = Path("a/measure.json")
    contents = json.loads(path.read_bytes())
    contents["layers"][0]["mad"]["mean"][0] = value
    path.write_text(json.dumps(contents))
    said = refusal(nearsight, "report", "a")
    assert "layers[0].mad.mean" in said
    contents["num_images"] = -1
    path.write_text(json.dumps(contents))
    assert "num_images" in refusal(nearsight, "report", "a")


def test_removed_weights_are_said(nearsight: Command):
    shutil.copytree(trained(), "run")
    Path("run/weights.safetensors").unlink()
    said = refusal(nearsight, "measure", "run", "--data-root", str(data_root()))
    assert "weights.safetensors" in said
    assert "first epoch" not in said


def test_a_setting_that_stands_twice_is_named(nearsight: Command):
    code, text, _ = nearsight("protocols", "baseline")
    assert code == 0
    Path("my.yaml").write_text(text + "epochs: 7\n")
    assert "epochs" in refusal(nearsight, "train", "my.yaml", "--out", "run")


def test_a_loss_that_became_nan_names_the_rate_of_its_own_step(nearsight: Command):
    settings = ("optimizer.lr=1e9", "epochs=1", "warmup_epochs=0", "batch_size=9")
    said = refusal(nearsight, *training(*settings))
    assert "became" in said
    assert "learning rate 0;" not in said
    assert "learning rate 0 " not in said


def test_a_hang_up_is_a_request_to_stop():
    from nearsight.core import stop_signals

    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    try:
        with stop_signals() as request:
            os.kill(os.getpid(), signal.SIGHUP)
            assert request.signum == signal.SIGHUP
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup does
        with stop_signals() as request:
            os.kill(os.getpid(), signal.SIGHUP)
            assert request.signum == 0
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_killed_write_leaves_nothing_for_good(tmp_path: Path):
    from nearsight.core import write_bytes

    child = os.fork()
    if child == 0:
        os.replace = os.rename = lambda *_: os.kill(os.getpid(), signal.SIGKILL)  # type: ignore[assignment]
        Path.replace = os.replace  # type: ignore[method-assign]
        write_bytes(tmp_path / "a.json", b"new")
        os._exit(1)
    os.waitpid(child, 0)
    (left,) = tmp_path.iterdir()
    assert left.name.endswith(".tmp")
    other = tmp_path / f".a.json.elsewhere.{os.getpid()}.tmp"  # of a machine that shares the disk
    other.write_bytes(b"at work")
    write_bytes(tmp_path / "a.json", b"newer")
    assert sorted(x.name for x in tmp_path.iterdir()) == sorted([other.name, "a.json"])


def test_a_worker_that_ends_with_any_code_is_told():
    from nearsight.study.engines.base import ending_of

    assert [ending_of(code).lost for code in (-35, 255, 163)] == [
        "signal 35",
        "signal 127",
        "signal 35",
    ]


def test_escape_sequences_in_names_do_not_reach_the_terminal(nearsight: Command, tmp_path: Path):
    shutil.copytree(example_runs() / "m", "m")
    path = Path("m/run.json")
    contents = json.loads(path.read_bytes())
    contents["model"]["name"] = "=1+1\x1b[2J\x9b31m$x$"
    path.write_text(json.dumps(contents))
    code, out, said = nearsight("report", "m", "--format", "csv")
    assert code == 0, said
    assert not UNPRINTABLE.search(out + said)
    assert not UNPRINTABLE.search(Path("report.html").read_text(encoding="utf-8"))
    tables = [x.read_text() for x in Path("report-files").glob("*.csv")]
    assert tables
    assert not any(line.startswith("=") or ",=" in line for x in tables for line in x.splitlines())


@pytest.mark.parametrize("words", [("report", "{}"), ("report", "m", "--format", "{}"), ("{}",)])
def test_escape_sequences_in_errors_do_not_reach_the_terminal(
    words: tuple[str, ...], nearsight: Command
):
    shutil.copytree(example_runs() / "m", "m")
    said = refusal(nearsight, *(x.replace("{}", "no\x1b]0;x\x07\x9b2J") for x in words))
    assert not UNPRINTABLE.search(said)


def test_a_damaged_png_is_noticed_by_its_checksums(tmp_path: Path):
    from nearsight.data.sets.pixels import read_pixels

    pixels = np.random.default_rng(3).integers(0, 256, (16, 16, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(tmp_path / "a.png", compress_level=0)
    content = bytearray((tmp_path / "a.png").read_bytes())
    content[200] ^= 1
    (tmp_path / "a.png").write_bytes(content)
    with pytest.raises(Exception, match=r"broken|damaged"):
        read_pixels(tmp_path / "a.png")
