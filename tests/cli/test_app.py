"""The command line: the whole road, and one clear sentence for every mistake."""

from __future__ import annotations

import json
import os
import pickle
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from made_data import write_coloured_folder, write_image
from safetensors.torch import save_file

from nearsight.cli import main
from nearsight.core import UserError
from nearsight.models.load.registry import create_model

Answer = tuple[int, str, str]


@pytest.fixture
def train(tmp_path: Path) -> list[str]:
    """The words of a training that takes a second."""
    write_coloured_folder(tmp_path / "images")
    sets = ["--set", "epochs=1", "--set", "data.image_size=16", "--set", "batch_size=13"]
    return ["train", "baseline", "--data", "./images", "--model", "mu", "--out", "run", *sets]


@pytest.mark.training
def test_the_whole_road_ends_with_a_report(nearsight: Callable[..., Answer], train: list[str]):
    assert nearsight(*train)[:2] == (0, "run\n")
    assert nearsight(*train)[2].strip() == "run is finished, so there is nothing to do"
    code, out, _ = nearsight("measure", "run")
    assert code == 0
    assert out.splitlines()[-1] == "run/measure.json"
    assert max(map(len, out.splitlines())) <= 80
    code, out, _ = nearsight("diff", "run", "run")
    assert code == 0
    assert "baseline, mu_vit, seed 0" in out
    code, out, _ = nearsight("report", "run", "--out", "r.html", "--format", "csv")
    assert code == 0
    assert out.splitlines()[-1] == "r.html"
    page = Path("r.html").read_text()
    assert "One seed is not enough for a claim." in page
    measured = json.loads(Path("run/measure.json").read_text())
    assert f"{measured['summary']['min_mad']['value']:.3f}" in page


@pytest.mark.training
def test_a_fraction_of_the_data_is_trained_longer_and_told_in_the_report(
    nearsight: Callable[..., Answer], train: list[str]
):
    assert nearsight(*train, "--fraction", "0.5")[0] == 0
    record = json.loads(Path("run/run.json").read_text())
    assert (record["protocol"]["name"], record["data"]["fraction"]) == ("baseline@50%", 0.5)
    assert (record["data"]["num_train"], record["data"]["num_validation"]) == (48, 12)
    assert record["result"]["images_seen"] == 2 * 48
    assert nearsight("measure", "run", "--num-images", "3")[0] == 0
    assert nearsight("report", "run", "--out", "r.html")[0] == 0
    assert (
        "50 % of the training images: 48 for training, 12 for validation"
        in Path("r.html").read_text()
    )


def test_alone_it_prints_its_help_to_stderr_and_exits_2(nearsight: Callable[..., Answer]):
    code, out, err = nearsight()
    assert (code, out) == (2, "")
    assert "protocols" in err
    assert "measure" in err


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["train", "modren", "--out", "r"], "did you mean modern"),
        (["train", "modern", "--out", "r", "--data", "cifra10"], "did you mean cifar10"),
        (["train", "modern", "--out", "r"], "nearsight data fetch cifar100"),
        (["train", "modern", "--out", "r", "--set", "epoch=3"], "did you mean epochs"),
        (["train", "modern", "--out", "r", "--set", "epochs=0"], "greater than 0, got 0"),
        (["train", "modern", "--out", "r", "--device", "gpu"], "'gpu' is not a device"),
        (["train", "modern", "--out", "r", "--precision", "bf17"], "'bf16'"),
        (["train", "my.yaml", "--out", "r"], "there is no file my.yaml"),
        (["measure", "nowhere"], "nowhere is neither a run folder"),
        (["measure", "runs/none"], "runs/none is neither a run folder"),
        (["measure", "vit_tiny_patch16_225"], "did you mean vit_tiny_patch16_224"),
        (["measure", "torchvision/vit_b16"], "did you mean vit_b_16"),
        (["measure", "mu"], "give --images DIR"),
        (["measure", "mu", "--images", "nowhere"], "there is no folder nowhere"),
        (["measure", "mu", "--images", ".", "--device", "gpu"], "'gpu' is not a device"),
        (["measure", "mu", "--images", ".", "--localise", "gausian:1"], "did you mean gaussian"),
        (["localise", "mu", "--widths", "wide"], "--widths is 'wide'"),
        (["localise", "mu", "--random-init", "--depths", "5", "--data", "shapes"], "2 layers"),
        (["diff", "nowhere", "nowhere"], "there is no folder nowhere"),
        (["report", "nowhere"], "there is no folder nowhere"),
        (["data", "fetch", "cifra100"], "did you mean"),
        (["data", "check", "cifar10"], "nearsight data fetch cifar10"),
        (["data", "import", "nowhere"], "no file or folder nowhere"),
    ],
)
def test_a_mistake_gets_one_sentence_and_exit_1(
    nearsight: Callable[..., Answer], words: list[str], sentence: str
):
    code, out, err = nearsight(*words)
    assert (code, out) == (1, "")
    assert sentence in err.strip().splitlines()[-1]
    assert "Traceback" not in err


@pytest.mark.slow
def test_an_unknown_model_gets_the_nearest_names(
    nearsight: Callable[..., Answer], train: list[str]
):
    words = [word.replace("mu", "nanno_vit") if word == "mu" else word for word in train]
    code, _, err = nearsight(*words)
    assert code == 1
    assert "nano_vit" in err


def test_a_patch_that_does_not_divide_the_image_is_named(
    nearsight: Callable[..., Answer], train: list[str]
):
    code, _, err = nearsight(*train, "--set", "model.patch_size=5")
    assert code == 1
    assert "16x16" in err
    assert " 5;" in err


def test_an_unwritable_output_is_named(nearsight: Callable[..., Answer], train: list[str]):
    Path("run").write_text("a file, not a folder")
    code, _, err = nearsight(*train)
    assert code == 1
    assert "run: File exists" in err


@pytest.mark.slow
def test_more_images_than_there_are_is_refused(nearsight: Callable[..., Answer], train: list[str]):
    nearsight(*train)
    code, _, err = nearsight("measure", "run", "--num-images", "100000")
    assert code == 1
    assert "100" in err
    assert not Path("run/measure.json").exists()


@pytest.fixture
def pictures(nearsight: Callable[..., Answer]) -> None:
    """7 pictures in a folder of that name where the command runs."""
    for index in range(7):
        write_image(Path("pictures") / f"{index}.png", (41, 37), seed=index)


@pytest.mark.usefixtures("pictures")
@pytest.mark.slow
def test_two_models_are_measured_compared_and_reported(nearsight: Callable[..., Answer]):
    words = ["measure", "mu", "--images", "pictures", "--random-init"]
    code, out, _ = nearsight(*words, "--num-images", "5", "--batch-size", "2")
    assert code == 0
    assert out.splitlines()[-1] == "runs/mu/measure.json"
    assert "5 of 7 in pictures" in out
    assert "short side to 32 (bicubic), middle 32x32" in " ".join(out.split())
    assert max(map(len, out.splitlines())) <= 80
    save_file(create_model("mu", 7).state_dict(), "w.safetensors")
    words = ["measure", "mu", "--images", "pictures", "--weights", "w.safetensors"]
    code, out, _ = nearsight(*words, "--num-images", "5", "--out", "runs/b", "--metrics", "all")
    assert code == 0
    assert "The file has a classifier head for 7 classes" in out
    code, out, _ = nearsight("diff", "runs/mu", "runs/b", "--out", "d.json")
    assert code == 0
    assert out.splitlines()[-1] == "d.json"
    assert "paired over 5 images of pictures" in " ".join(out.split())
    assert max(map(len, out.splitlines())) <= 80
    found = json.loads(Path("d.json").read_text())
    a, b = (json.loads(Path(f"runs/{x}/measure.json").read_text()) for x in ("mu", "b"))
    heads = [measured["layers"][1]["mad"]["mean"][0] for measured in (a, b)]
    assert found["layers"][1]["mad"]["mean"][0] == pytest.approx(heads[1] - heads[0])
    code, out, _ = nearsight("report", "runs/mu", "runs/b", "--out", "r.html")
    assert code == 0
    page = Path("r.html").read_text()
    assert "random initialisation, seed 0" in page
    assert "accuracy" not in re.sub("(?s)<iframe.*?</iframe>", "", page)  # the explorer has it


@pytest.mark.usefixtures("pictures")
@pytest.mark.slow
def test_a_model_is_measured_with_local_attention_beside_the_plain_one(
    nearsight: Callable[..., Answer],
):
    words = ["measure", "mu", "--images", "pictures", "--random-init", "--num-images", "3"]
    assert nearsight(*words)[0] == 0
    code, out, _ = nearsight(*words, "--localise", "window:1@last1")
    assert code == 0
    assert out.splitlines()[-1] == "runs/mu-window-1-last1/measure.json"
    assert "Its attention was made local: window:1@last1." in out
    plain, local = (
        json.loads(Path(f"runs/{name}/measure.json").read_text())["layers"]
        for name in ("mu", "mu-window-1-last1")
    )
    assert local[0]["mad"]["mean"] == pytest.approx(plain[0]["mad"]["mean"])
    assert local[1]["mad"]["mean"] == pytest.approx([0.0, 0.0], abs=1e-6)
    assert min(plain[1]["mad"]["mean"]) > 0.3


@pytest.mark.slow
def test_a_model_is_evaluated_beside_itself_with_local_attention(nearsight: Callable[..., Answer]):
    words = ["evaluate", "mu", "--random-init", "--task", "hummingbird", "--data", "shapes"]
    few = ["--num-train", "7", "--num-val", "5", "--no-controls", "--set", "k=3"]
    code, out, _ = nearsight(*words, *few, "--localise", "gaussian:0.7@last1")
    assert code == 0
    assert "prefix tokens" in out
    differences = " ".join(out.partition("paired differences")[2].split())
    assert differences.count("mu (untrained) − mu") == 3  # mIoU, accuracy, mIoU at boundaries
    assert differences.count("(untrained) gaussian:0.7@last1") == 3
    assert out.splitlines()[-2:] == [
        "runs/mu/evaluate.json",
        "runs/mu-gaussian-0.7-last1/evaluate.json",
    ]


@pytest.mark.usefixtures("pictures")
@pytest.mark.slow
def test_other_images_cannot_be_compared(nearsight: Callable[..., Answer]):
    for number in ("3", "5"):
        nearsight(
            "measure", "mu", "--images", "pictures", "--random-init", "--out", f"runs/{number}",
            "--num-images", number,
        )  # fmt: skip
    code, out, err = nearsight("diff", "runs/3", "runs/5")
    assert (code, out) == (1, "")
    assert "(3 and 5 images)" in err
    assert "--num-images" in err


@pytest.mark.usefixtures("pictures")
def test_a_pickle_with_code_is_refused_from_the_command_line(nearsight: Callable[..., Answer]):
    class Bomb:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return (os.system, ("touch exploded",))

    Path("w.pth").write_bytes(pickle.dumps({"a": Bomb()}, protocol=2))
    code, _, err = nearsight("measure", "mu", "--images", "pictures", "--weights", "w.pth")
    assert code == 1
    assert "holds posix.system" in err.splitlines()[-1]
    assert not Path("exploded").exists()
    assert not Path("runs").exists()


@pytest.mark.slow
@pytest.mark.usefixtures("pictures")
def test_a_run_takes_no_options_of_a_model(nearsight: Callable[..., Answer], train: list[str]):
    nearsight(*train)
    code, _, err = nearsight("measure", "run", "--images", "pictures", "--no-resize")
    assert code == 1
    assert "leave out --images, --no-resize" in err


def test_wrong_usage_exits_2(nearsight: Callable[..., Answer]):
    assert nearsight("train")[0] == 2
    assert nearsight("measure", "run", "--num-images", "many")[0] == 2
    assert nearsight("trian")[0] == 2


def test_ctrl_c_exits_130(nearsight: Callable[..., Answer], monkeypatch: pytest.MonkeyPatch):
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("nearsight.protocol.presets.preset", interrupted)
    assert nearsight("protocols", "modern") == (130, "", "nearsight: stopped\n")


@pytest.mark.slow
def test_a_full_disk_is_one_sentence(
    nearsight: Callable[..., Answer], train: list[str], monkeypatch: pytest.MonkeyPatch
):
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device", "run/checkpoint")

    monkeypatch.setattr("nearsight.train.journal.save_checkpoint", full)
    code, _, err = nearsight(*train)
    assert code == 1
    assert "run/checkpoint: No space left on device" in err.splitlines()[-1]


@pytest.mark.slow
def test_too_little_memory_is_one_sentence(
    nearsight: Callable[..., Answer], train: list[str], monkeypatch: pytest.MonkeyPatch
):
    from torch import OutOfMemoryError

    def exhausted(*_: object) -> None:
        raise OutOfMemoryError("CUDA out of memory. Tried to allocate 7 GiB")

    monkeypatch.setattr("nearsight.train.journal.save_checkpoint", exhausted)
    code, _, err = nearsight(*train)
    assert code == 1
    assert err.splitlines()[-1].startswith("nearsight: there is not enough memory")


def test_the_home_of_an_unknown_user_is_refused_in_one_sentence(nearsight, tmp_path):
    train = ["train", "baseline", "--out", str(tmp_path / "run"), "--data"]
    for words in (["data", "check"], train):
        code, _, err = nearsight(*words, "~nosuchuser/x")
        assert code == 1
        assert "no user 'nosuchuser'" in err.splitlines()[-1]


def test_only_what_a_user_can_cause_is_told_in_one_sentence(nearsight, monkeypatch):
    def fail_with(error: Exception):
        def raise_it(*_, **__):
            raise error

        monkeypatch.setattr("nearsight.protocol.preset_tables", raise_it)

    fail_with(UserError("the preset is unknown"))
    assert nearsight("protocols") == (1, "", "nearsight: the preset is unknown\n")
    fail_with(ValueError("operands could not be broadcast"))
    with pytest.raises(ValueError, match="broadcast") as raised:
        main()
    assert "bug in nearsight" in raised.value.__notes__[0]
