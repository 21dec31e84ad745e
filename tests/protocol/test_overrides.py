"""Protocols as text: what is accepted, what is refused and in which words."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path

import pytest

from nearsight.core.errors import UserError
from nearsight.protocol.overrides import (
    fitted_warmup,
    override,
    protocol_from,
    protocol_yaml,
    read_protocol,
)
from nearsight.protocol.presets import PRESETS, preset
from nearsight.protocol.schema import CutOut, Mixup

DATA = ("cifar10", "cifar100", "tiny-imagenet", "shapes")


def test_overrides_are_typed_by_the_schema() -> None:
    changed = override(
        preset("baseline"),
        ["epochs=7", "optimizer.lr=1e-3", "patience=null", "flip=false", "precision=bf16"],
    )
    assert (changed.epochs, changed.optimizer.lr, changed.patience) == (7, 0.001, None)
    assert (changed.flip, changed.precision) == (False, "bf16")
    assert override(changed, ["optimizer.betas=[0.9, 0.95]"]).optimizer.betas == (0.9, 0.95)


def test_overrides_change_nothing_else_and_leave_the_original_alone() -> None:
    modern = preset("modern")
    before = asdict(modern)
    changed = asdict(override(modern, ["cutmix.probability=1"]))
    assert asdict(modern) == before
    assert changed["cutmix"].pop("probability") == 1.0
    assert before["cutmix"].pop("probability") == 0.5
    assert changed == before


def test_the_last_of_two_overrides_of_a_setting_counts() -> None:
    assert override(preset("baseline"), ["epochs=7", "epochs=11"]).epochs == 11


def test_a_part_is_switched_on_with_its_defaults_or_with_values_and_off_with_null() -> None:
    baseline = preset("baseline")
    assert override(baseline, ["mixup={}"]).mixup == Mixup()
    assert override(baseline, ["cutout={size: 5}"]).cutout == CutOut(size=5)
    assert override(preset("modern"), ["cutmix=null"]).cutmix is None


def test_a_part_just_switched_on_can_be_set_as_the_error_for_parts_that_are_off_says() -> None:
    switched_on = override(preset("baseline"), ["mixup={}", "mixup.alpha=0.3"])
    assert switched_on.mixup == Mixup(alpha=0.3)


@pytest.mark.parametrize(
    ("assignment", "sentence"),
    [
        ("epoch=3", r"unknown setting 'epoch'; did you mean epochs\?"),
        ("optimizer.lrr=1", r"unknown setting 'optimizer.lrr'; did you mean optimizer.lr\?"),
        ("cutmix.prob=1", r"unknown setting 'cutmix.prob'; did you mean cutmix.probability\?"),
        ("mixup.alhpa=1", r"\bmixup\.alhpa\b.*--set mixup=\{\}"),
        ("model.gpsa.layers=3", r"\bmodel\.gpsa\.layers\b.*--set model\.gpsa=\{\}"),
        ("model.gpsa={layer: 3}", r"unknown setting .*; did you mean model.gpsa.layers\?"),
        ("epochs.lr=1", r"unknown setting 'epochs.lr'"),
        ("xyzzyq=1", r"unknown setting 'xyzzyq' \(`nearsight protocols NAME` lists all"),
        ("optimizer.lr=-1", r"\bsetting optimizer\.lr\b.*\b0\b.*-1$"),
        ("cutmix.probability=1.5", r"cutmix.probability: .* less than or equal to 1, got 1.5"),
        ("label_smoothing=1", r"\bsetting label_smoothing\b.*\b1\b.*\b1$"),
        ("epochs=ten", r"setting epochs: .* integer.*, got 'ten'"),
        ("epochs=1.5", r"setting epochs: .* got 1.5"),
        ("epochs=true", r"\bsetting epochs\b.*'true'"),
        ("optimizer.lr=.nan", r"setting optimizer.lr: .* finite number, got nan"),
        ("precision=bf17", r"setting precision: .*'bf16'.* got 'bf17'"),
        ("cutmix=1", r"setting cutmix: .* got 1"),
        ("cutmix={prob: 1}", r"unknown setting 'cutmix.prob'; did you mean cutmix.probability\?"),
        ("epochs", r"'epochs'.*\bKEY=VALUE"),
        ("optimizer.lr=[", r"\bsetting optimizer\.lr\b.*\bYAML\b.*'\['"),
    ],
)
def test_a_wrong_override_is_refused_in_one_line(assignment: str, sentence: str) -> None:
    with pytest.raises(UserError, match=sentence) as refusal:
        override(preset("modern"), [assignment])
    assert type(refusal.value) is UserError
    assert "\n" not in str(refusal.value)


def test_a_setting_below_a_part_that_is_off_says_how_to_switch_it_on() -> None:
    with pytest.raises(UserError, match=r"\bcutmix\b.*--set cutmix=\{\}"):
        override(preset("baseline"), ["cutmix.probability=1"])


@pytest.mark.parametrize("data", DATA)
@pytest.mark.parametrize("name", PRESETS)
def test_what_is_printed_reads_back_as_the_same_protocol(
    name: str, data: str, tmp_path: Path
) -> None:
    protocol = preset(name, data)
    file = tmp_path / "protocol.yaml"
    file.write_text(protocol_yaml(protocol))
    assert read_protocol(str(file), "ignored") == protocol


@pytest.mark.parametrize("rate", ["1e-3", "1.0e-3", "0.001", "1E-3"])
def test_a_rate_may_be_written_in_any_notation(rate: str, tmp_path: Path) -> None:
    text = protocol_yaml(preset("baseline")).replace("lr: 0.0003  # assumed", f"lr: {rate}")
    file = tmp_path / "mine.yml"
    file.write_text(text)
    protocol = read_protocol(str(file), "cifar100")
    assert protocol.optimizer.lr == 0.001
    file.write_text(protocol_yaml(protocol))
    assert read_protocol(str(file), "cifar100") == protocol


def test_yaml_marks_assumed_values_where_they_stand() -> None:
    lines = protocol_yaml(preset("modern")).splitlines()
    assert "  lr: 0.0003  # assumed" in lines
    assert "  probability: 0.5  # assumed" in lines
    assert "epochs: 600" in lines
    assert "epochs: 30  # assumed" in protocol_yaml(preset("modern", "shapes")).splitlines()


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("epochs: [3", r"/mine\.yaml .*\bYAML\b"),
        ("just words", r"/mine\.yaml .*'just words'"),
        ("", r"/mine\.yaml .*\bNone\b"),
        ("name: mine\nepochs: 3\nepoch: 3\n", r"setting \w+: "),
        ("!!python/object/apply:os.getcwd []", r"/mine\.yaml .*\bYAML\b"),
    ],
)
def test_a_wrong_file_is_refused_in_one_line(content: str, sentence: str, tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(content)
    with pytest.raises(UserError, match=sentence) as refusal:
        read_protocol(str(file), "cifar100")
    assert "\n" not in str(refusal.value)


def test_a_missing_file_is_named() -> None:
    with pytest.raises(UserError, match=r"\bnowhere\.yaml\b"):
        read_protocol("nowhere.yaml", "cifar100")


def test_plain_values_make_a_protocol_again() -> None:
    modern = preset("modern", "tiny-imagenet")
    assert protocol_from(asdict(modern)) == modern
    with pytest.raises(UserError, match=r"unknown setting 'optimizer\.momentum'"):
        protocol_from(asdict(modern) | {"optimizer": {"momentum": 0.9}})


@pytest.mark.parametrize(("epochs", "warmup", "fitted"), [(10, 5, 5), (9, 5, 0.9), (3, 2, 0.3)])
def test_a_warmup_of_more_than_half_the_epochs_becomes_a_tenth(
    epochs: int, warmup: float, fitted: float
) -> None:
    protocol = replace(preset("baseline"), epochs=epochs, warmup_epochs=warmup)
    changed, note = fitted_warmup(protocol)
    assert changed == replace(protocol, warmup_epochs=fitted)
    assert (note is None) == (warmup == fitted)


def test_a_shortened_warmup_is_said() -> None:
    _, note = fitted_warmup(replace(preset("baseline"), epochs=7))
    assert note == "warm-up shortened from 5 to 0.7 epochs, a tenth of the 7 epochs"


LAUGHS = "a: &a [1, 1]\n" + "".join(
    f"{chr(98 + i)}: &{chr(98 + i)} [*{chr(97 + i)}, *{chr(97 + i)}]\n" for i in range(24)
)


@pytest.mark.parametrize(
    "text", [LAUGHS, "[" * 3000, "9" * 5000, "{x: " * 40, "a" * 70_000, "2000-13-45"]
)
def test_yaml_without_bound_is_refused_in_a_short_sentence(text: str, tmp_path: Path) -> None:
    with pytest.raises(UserError) as refusal:
        override(preset("modern"), [f"epochs={text}"])
    assert len(str(refusal.value)) < 200
    file = tmp_path / "mine.yaml"
    file.write_text(text)
    with pytest.raises(UserError) as refusal:
        read_protocol(str(file), "cifar100")
    assert len(str(refusal.value)) < 300 + len(str(file))


@pytest.mark.parametrize(
    "setting",
    [
        "data.split_seed=1" + "0" * 30,
        "repeats=1" + "0" * 30,
        "crop_padding=1" + "0" * 30,
        "optimizer.lr=1e300",
        "model.locat={gaussian: {width: 1e300}}",
    ],
)
def test_numbers_that_would_overflow_are_refused(setting: str) -> None:
    with pytest.raises(UserError, match=f"setting {setting.split('=')[0]}"):
        override(preset("modern"), [setting])


@pytest.mark.parametrize("name", ["a\x1b[31m", "a\nb", "\ud800"])
def test_a_name_that_cannot_be_printed_is_refused(name: str) -> None:
    with pytest.raises(UserError, match=r"\bsetting name\b.*'.*\\.*'"):
        protocol_from({**asdict(preset("modern")), "name": name})
