"""Protocols as `--set` and YAML files, and words of commands, up to the first training step."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from attack.attack import Attack
from attack.command_line import command
from attack.inputs.damage import NASTY_TEXT, PLAIN, byte_damages, damaged_bytes
from attack.material import data_root, example_runs, images, small_protocol
from attack.verdicts import ACCEPTED, Verdict, unnoticed, verdict_of
from hypothesis import strategies as some

from nearsight.core import World
from nearsight.protocol import PRESETS, preset, protocol_yaml
from nearsight.protocol.overrides import _paths, override, parse_yaml
from nearsight.protocol.presets import value_at
from nearsight.protocol.schema import Protocol
from nearsight.runs import settle

PATHS = sorted(set(_paths()) - {"model.name", "data.name"})
SMALL = (
    "mu",
    "mu_locat",
    "mu_convit",
    "nano",
    "compact",
    "vit_tiny_patch16_224",
    "nope",
    "",
    "timm/x",
)
NEAR = (
    "1",
    "2",
    "3",
    "4",
    "7",
    "16",
    "17",
    "0.1",
    "0.5",
    "0.9",
    "true",
    "false",
    "null",
    "{}",
    "[]",
)
TEXTS = some.one_of(
    some.sampled_from(NEAR),
    some.sampled_from(NEAR),
    some.sampled_from(NASTY_TEXT),
    PLAIN.map(str),
    some.sampled_from(
        (
            "!!python/object/apply:os.system ['touch x']", "&a [*a]", "[[[[[[[[[[[[[[[[[[[[1]]]]",
            "{gaussian: {width: 1e300}}", "{probability: 2}", "[0.9, 0.9]", "[1e999, .nan]", "0x10",
            "1_000", "1e-4", "2024-13-45", "9" * 5000, "'", '"', "{a: b: c}", "\t", "%", "@", "`",
        )
    ),
)  # fmt: skip
ASSIGNMENTS = some.one_of(
    some.tuples(some.sampled_from(PATHS), TEXTS),
    some.tuples(some.sampled_from(PATHS), TEXTS),
    some.tuples(some.just("model.name"), some.sampled_from(SMALL)),
    some.tuples(
        some.sampled_from(("data.name", "", ".", "optimizer", "a.b.c", "data.", "x" * 300)), TEXTS
    ),
)


def _set(case: list[tuple[str, str]], place: Path) -> Verdict:
    """Override a protocol; what is accepted is what was asked for, and can take a first step."""
    protocol: Protocol | None = None

    def chosen() -> Protocol:
        return override(small_protocol(), [f"{path}={text}" for path, text in case])

    verdict = verdict_of(chosen)
    if verdict.what != ACCEPTED:
        return verdict
    protocol = verdict.value
    for path, text in dict(case).items():  # the last assignment of a path counts
        later = [other for other, _ in case[[x for x, _ in case].index(path) + 1 :]]
        if any(path.startswith(f"{x}.") or x.startswith(f"{path}.") for x in later):
            continue
        wanted, found = parse_yaml(text), value_at_or_self(protocol, path.strip())
        if not _same(wanted, found):
            return unnoticed(f"{path}={text[:100]} became {found!r}")
    return verdict_of(lambda: _first_step(protocol, place))


def value_at_or_self(protocol: Protocol, path: str) -> Any:
    """Return the value of a setting as plain values."""
    from dataclasses import asdict

    return value_at(asdict(protocol), path)


def _same(wanted: Any, found: Any) -> bool:
    """Whether a setting has the value that was written, but for its type."""
    if isinstance(wanted, dict) or isinstance(found, dict):
        return True  # a group, whose parts are validated one by one
    if isinstance(wanted, list):
        return isinstance(found, list | tuple) and list(found) == wanted
    if isinstance(found, bool) or found is None or isinstance(found, str):
        return str(wanted).lower() == str(found).lower() or wanted == found
    try:
        return math.isclose(float(wanted), float(found))
    except (TypeError, ValueError):
        return False


def _first_step(protocol: Protocol, place: Path) -> None:
    """Prepare a run and train its first batch."""
    from nearsight.train.preparation import prepare
    from nearsight.train.step import Stepper

    settled, _ = settle(protocol)
    root = data_root() if "folder:" in protocol.data.name else place
    with torch.random.fork_rng(devices=[]):
        parts = prepare(settled, 0, World(torch.device("cpu")), root, False, "ddp")
        stepper = Stepper(parts, place)
        parts.state.counters.epoch = 1
        stepper.take(next(iter(parts.batches(1))))


def _yaml_file(case: tuple[str, list], place: Path) -> Verdict:
    """Damage a YAML file of settings, and read it as `train FILE` does."""
    from nearsight.protocol.overrides import read_protocol

    name, damages = case
    text = protocol_yaml(preset(name, "shapes")).encode()
    for damage in damages:
        if damage.kind == "replace":
            lines = text.split(b"\n")
            at = damage.at % len(lines)
            key = lines[at].partition(b":")[0]
            lines[at] = key + b": " + str(damage.value).encode(errors="surrogatepass")
            text = b"\n".join(lines)
        else:
            text = damaged_bytes(text, damage)
    (place / "my.yaml").write_bytes(text)
    return verdict_of(lambda: settle(read_protocol(str(place / "my.yaml"), "shapes")))


def _yaml_damages() -> some.SearchStrategy:
    from attack.inputs.damage import JsonDamage

    return some.one_of(
        some.builds(JsonDamage, some.just("replace"), some.integers(0, 10**4), TEXTS),
        byte_damages(),
    )


WORDS = some.one_of(some.sampled_from(NASTY_TEXT), PLAIN.map(str), some.sampled_from(NEAR))
OPTIONS = (
    ("train", "{}", "--out", "o", "--data", "shapes", "--set", "epochs=0"),
    ("train", "baseline", "--out", "o", "--data", "{}"),
    ("train", "baseline", "--out", "o", "--data", "IMAGES", "--model", "{}", "--set", "epochs=0"),
    ("train", "baseline", "--out", "o", "--data", "IMAGES", "--fraction", "{}", "--set",
    "epochs=0"),
    ("train", "baseline", "--out", "o", "--data", "IMAGES", "--weights", "{}", "--model", "mu"),
    ("train", "baseline", "--out", "o", "--data", "IMAGES", "--seed", "{}", "--set", "epochs=0"),
    ("train", "baseline", "--out", "o", "--device", "{}", "--data", "IMAGES", "--model", "mu"),
    ("train", "baseline", "--out", "o", "--precision", "{}", "--data", "IMAGES"),
    ("train", "baseline", "--out", "o", "--track", "{}", "--data", "IMAGES", "--set", "epochs=0"),
    ("measure", "{}", "--images", "IMAGES"), ("measure", "mu", "--images", "{}", "--random-init"),
    ("measure", "mu", "--images", "IMAGES", "--random-init", "--metrics", "{}", "--num-images",
    "2"),
    ("measure", "mu", "--images", "IMAGES", "--random-init", "--image-size", "{}", "--num-images",
    "2"),
    ("measure", "mu", "--images", "IMAGES", "--random-init", "--convention", "{}", "--num-images",
    "2"),
    ("measure", "mu", "--images", "IMAGES", "--random-init", "--localise", "{}", "--num-images",
    "2"),
    ("measure", "mu", "--images", "IMAGES", "--random-init", "--num-images", "{}"),
    ("measure", "mu", "--images", "IMAGES", "--random-init", "--batch-size", "{}", "--num-images",
    "2"),
    ("measure", "mu", "--images", "IMAGES", "--weights", "{}"), ("diff", "{}", "{}"),
    ("measure", "mu", "--images", "IMAGES", "--random-init", "--out", "{}", "--num-images", "2"),
    ("report", "{}"), ("report", "RUN", "--out", "{}"), ("report", "RUN", "--format", "{}"),
    ("explore", "{}"), ("explore", "RUN", "--out", "{}"), ("maps", "{}", "--images", "IMAGES"),
    ("models", "{}"), ("models", "mu", "--set", "{}"), ("models", "mu", "--set", "num_heads={}"),
    ("models", "mu", "--set", "patch_size={}"), ("protocols", "{}"),
    ("protocols", "modern", "--data", "{}"),
    ("data", "check", "{}"), ("data", "import", "{}"), ("data", "register", "{}", "IMAGES"),
    ("data", "register", "x", "{}"), ("data", "list", "--data-root", "{}"),
    ("data", "cache", "--delete", "{}"),
    ("evaluate", "{}", "--data", "IMAGES"), ("evaluate", "mu", "--random-init", "--data", "{}"),
    ("evaluate", "mu", "--random-init", "--data", "IMAGES", "--task", "{}"),
    ("localise", "{}"), ("study", "plan", "{}"), ("study", "run", "{}", "--out", "s"),
    ("study", "status", "{}"), ("study", "report", "{}"), ("study", "claims", "{}"),
    ("study", "export", "{}", "--out", "e"), ("study", "causal", "{}"), ("{}",), ("{}", "{}"),
    ("measure", "RUN", "--threads", "{}"), ("doctor", "--threads", "{}"),
)  # fmt: skip


def _words(case: tuple[int, str], place: Path) -> Verdict:
    """Type a command with a nasty word in one place."""
    number, word = case
    real = {"IMAGES": str(images()), "RUN": str(example_runs() / "a")}
    words = [word if x == "{}" else real.get(x, x.replace("{}", word)) for x in OPTIONS[number]]
    data = place / "data"
    data.mkdir()
    with (
        patch.dict("os.environ", {"NEARSIGHT_DATA": str(data), "HF_HUB_OFFLINE": "1"}),
        patch("torch.set_num_threads"),  # it takes effect only once per process
        patch("urllib.request.urlopen", side_effect=OSError(101, "no network in the attack")),
    ):
        return command(*words)


def warm() -> None:
    """Load what a first attempt would load."""
    _first_step(small_protocol(), data_root())
    example_runs()


ATTACKS = (
    Attack("settings (--set)", some.lists(ASSIGNMENTS, min_size=1, max_size=3), _set, share=10),
    Attack(
        "protocol files",
        some.tuples(
            some.sampled_from(sorted(PRESETS)), some.lists(_yaml_damages(), min_size=1, max_size=3)
        ),
        _yaml_file,
        share=8,
    ),
    Attack(
        "words of commands", some.tuples(some.integers(0, len(OPTIONS) - 1), WORDS), _words, share=5
    ),
)
