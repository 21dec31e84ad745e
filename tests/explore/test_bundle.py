"""The committed bundle is what the sources give, small enough, and in step with the palette."""

import gzip
import json
import re
import subprocess

import pytest
from explore.conftest import PAGE
from matplotlib import colormaps
from matplotlib.colors import to_hex

from nearsight.explore.document import SCRIPT, STYLE, read_bundled

PALETTE = PAGE.parents[1] / "report" / "templates" / "palette.json"


def node(*words):
    done = subprocess.run(words, cwd=PAGE, capture_output=True, text=True, timeout=300)
    return done.returncode, done.stdout + done.stderr


def test_a_rebuild_gives_the_committed_bytes(node_modules):
    assert node("node", "build.mjs", "--check") == (0, "")


@pytest.mark.processes
def test_a_change_of_the_sources_is_noticed(node_modules, tmp_path):
    import shutil

    copy = tmp_path / "nearsight" / "explore" / "page"
    shutil.copytree(PAGE, copy, ignore=shutil.ignore_patterns("node_modules"), symlinks=True)
    (copy / "node_modules").symlink_to(node_modules)
    (tmp_path / "nearsight" / "report" / "templates").mkdir(parents=True)
    colours = json.loads(PALETTE.read_text())
    colours["page"]["light"]["rule"] = "#123456"
    (tmp_path / "nearsight" / "report" / "templates" / "palette.json").write_text(
        json.dumps(colours)
    )
    done = subprocess.run(
        ["node", "build.mjs", "--check"], cwd=copy, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 1
    assert "explore.css" in done.stderr


def test_the_types_hold(node_modules):
    code, told = node("node", "node_modules/typescript/bin/tsc", "--noEmit")
    assert (code, told) == (0, "")


def test_script_and_style_stay_small():
    sizes = [read_bundled(name).encode() for name in (SCRIPT, STYLE)]
    assert sum(map(len, sizes)) <= 200_000
    assert sum(len(gzip.compress(x, 9)) for x in sizes) <= 80_000


def test_nothing_in_the_bundle_can_end_the_script_element():
    assert "</script" not in read_bundled(SCRIPT).lower()
    assert "<!--" not in read_bundled(SCRIPT)
    assert "</style" not in read_bundled(STYLE).lower()


def test_versions_are_exact_and_no_registry_is_named():
    package = json.loads((PAGE / "package.json").read_text())
    pinned = {**package["dependencies"], **package["devDependencies"]}
    assert all(re.fullmatch(r"\d+\.\d+\.\d+", version) for version in pinned.values())
    lock = (PAGE / "package-lock.json").read_text()
    assert "resolved" not in lock
    assert all("integrity" in x for name, x in json.loads(lock)["packages"].items() if name)


def test_licences_of_what_is_bundled_are_passed_on():
    text = (PAGE / "bundle" / "LICENSES.txt").read_text()
    for name in ("uplot", "lit-html", "@preact/signals-core"):
        assert re.search(rf"^{name} \d", text, re.M)
    assert text.count("Copyright") >= 3


def test_viridis_of_the_palette_is_that_of_matplotlib():
    text = json.loads(PALETTE.read_text())["viridis"]
    steps = [f"#{text[6 * i : 6 * i + 6]}" for i in range(256)]
    assert steps == [to_hex(colormaps["viridis"](i)) for i in range(256)]


def contrast(one, other):
    def light(colour):
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        parts = [x / 12.92 if x <= 0.03928 else ((x + 0.055) / 1.055) ** 2.4 for x in parts]
        return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]

    high, low = sorted((light(one), light(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("ink", ["text", "muted", "link"])
def test_text_has_enough_contrast_in_both_themes(theme, ink):
    colours = json.loads(PALETTE.read_text())["page"][theme]
    assert contrast(colours[ink], colours["paper"]) >= 4.5
    assert contrast(colours[ink], colours["tint"]) >= 4.5
