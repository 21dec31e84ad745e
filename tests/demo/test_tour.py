"""The demo from its first picture to its report."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nearsight.demo import run_demo, tour


@pytest.mark.training
def test_the_demo_shows_a_page_then_trains_then_reports(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained: list[Path] = []

    def copy_instead(protocol, out, **options) -> Path:
        """A finished run in place of a minute of training."""
        assert (protocol.model.name, protocol.measure_every) == ("nano_vit", 1)
        assert (tmp_path / "look.html").is_file()  # the picture comes before the training
        trained.append(out)
        out.mkdir()
        for name in ("run.json", "train.jsonl", "weights.safetensors"):
            (out / name).write_bytes((tmp_path / "plain" / name).read_bytes())
        record = json.loads((out / "run.json").read_text())
        record["protocol"]["epochs"] = protocol.epochs
        (out / "run.json").write_text(json.dumps(record))
        return out

    monkeypatch.setattr("nearsight.train.train_run", copy_instead)
    said: list[str] = []
    found = run_demo(tmp_path, epochs=3, num_images=4, say=said.append)
    assert trained == [tmp_path / tour.LIVE]
    assert any(str(found.page) in line for line in said)
    page, report = found.page.read_text(), found.report.read_text()
    for model in ("nano_locat", "nano_convit"):
        assert model in page
        assert model in report
