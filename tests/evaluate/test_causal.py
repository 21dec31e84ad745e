"""What is lost when heads look elsewhere: counted on the same images, head by head."""

from __future__ import annotations

import json
from io import StringIO

import numpy as np
import pytest
import torch
from measure.folders.test_run_folder import dataset, write_mu_run
from measure.profile.test_profile import sharp_model
from rich.console import Console
from runs.made_records import causal_contents
from scipy.stats import binom
from torch import nn

from nearsight.core import UserError
from nearsight.evaluate.causal import answers, causal_run, head_groups, logits_seen
from nearsight.evaluate.intervention import Intervention, MeanAttention, mean_map_rule, window_rule
from nearsight.measure.capture.interception import AttentionCapture
from nearsight.measure.folders.run_folder import chosen_images
from nearsight.measure.profile import unread_layers
from nearsight.models.layers.attention import attend
from nearsight.models.layers.grid import Grid
from nearsight.report.figures.study import write_causal_figure
from nearsight.runs.records import CAUSAL_FILE
from nearsight.stats.accuracy_loss import accuracy_loss
from nearsight.study.show.causal_table import causal_table


def turned(num_spoilt: int, num_mended: int, num_right: int, num_wrong: int):
    """Answers before and after, with these many that turned and that did not."""
    counts = [num_spoilt, num_mended, num_right, num_wrong]
    before = np.repeat([True, False, True, False], counts)
    after = np.repeat([False, True, True, False], counts)
    return before, after


def test_a_loss_has_the_interval_and_p_worked_out_by_hand():
    loss = accuracy_loss(*turned(7, 2, 30, 59))
    assert (loss.num_images, loss.num_spoilt, loss.num_mended) == (98, 7, 2)
    assert loss.value == 5 / 98
    # 7.5 - 2.5 turned of 100; variance (7.5 + 2.5 - 25 / 100) / 100^2
    half = 1.959963984540054 * (9.75**0.5) / 100
    assert (loss.low, loss.high) == pytest.approx((0.05 - half, 0.05 + half))
    assert loss.p == pytest.approx(2 * (1 + 9 + 36) / 2**9)


@pytest.mark.parametrize(("spoilt", "mended"), [(0, 0), (1, 0), (3, 3), (2, 11)])
def test_p_is_twice_the_smaller_tail_and_a_swap_turns_the_sign(spoilt, mended):
    before, after = turned(spoilt, mended, 5, 13)
    loss, back = accuracy_loss(before, after), accuracy_loss(after, before)
    tail = binom.cdf(min(spoilt, mended), spoilt + mended, 0.5)
    assert loss.p == pytest.approx(min(1.0, 2 * tail))
    assert (loss.value, loss.low, loss.p) == pytest.approx((-back.value, -back.high, back.p))


def test_no_turned_answer_is_no_certainty():
    loss = accuracy_loss(*turned(0, 0, 11, 6))
    assert loss.value == 0
    assert loss.p == 1
    assert loss.low < -0.05
    assert loss.high > 0.05


def test_answers_to_other_images_are_refused():
    with pytest.raises(UserError, match=r"\b5 and 4 images\b"):
        accuracy_loss(np.ones(5, bool), np.ones(4, bool))


class FarSighted(nn.Module):
    """1x7 patches; two heads. Head 1: every patch sees the one at the right end, head 2: itself.

    The answer is the sign of what the first patch gets from head 1, and nothing else.
    """

    grid, num_prefix = Grid(1, 7), 0

    def __init__(self):
        super().__init__()
        self.embed = nn.Conv2d(3, 1, 1)
        nn.init.constant_(self.embed.weight, 1 / 3)
        nn.init.zeros_(self.embed.bias)

    def forward(self, x):
        values = self.embed(x).flatten(2).mT[:, None].expand(-1, 2, -1, 7)  # [image, 2, 7, 7]
        keys = torch.eye(7).expand(len(x), 2, 7, 7)
        end = torch.zeros(7, 7)
        end[:, -1] = 1
        queries = torch.stack([end, torch.eye(7)]).expand(len(x), 2, 7, 7)
        seen = attend(queries, keys, values, 50.0)
        return torch.stack([-seen[:, 0, 0, 0], seen[:, 0, 0, 0]], 1)


def test_a_head_that_needs_to_look_far_loses_what_its_window_hides():
    """8 images: the right end decides; what the first two patches show agrees with it in 5."""
    end = torch.tensor([1, -1, 1, -1, 1, -1, 1, -1.0])
    near = end * torch.tensor([1, 1, 1, 1, 1, -1, -1, -1.0])
    pixels = torch.zeros(8, 3, 1, 7)
    pixels[..., -1], pixels[..., 0] = end[:, None, None], near[:, None, None]
    labels, model = (end > 0).long().numpy(), FarSighted()
    mean = MeanAttention()
    before = answers(model, [pixels], mean) == labels
    assert before.all()
    layers = mean.layers(8)

    def lost(head: int, rule) -> float:
        change = Intervention({"FarSighted": [head]}, rule)
        return accuracy_loss(before, answers(model, [pixels], change=change) == labels).value

    assert lost(0, window_rule("inside", 3, layers)) == 3 / 8
    assert lost(0, window_rule("outside", 3, layers)) == 0
    assert lost(0, window_rule("inside", 13, layers)) == 0
    assert lost(0, mean_map_rule(layers)) == 0  # its attention is position alone
    assert lost(1, window_rule("outside", 3, layers)) == 0  # nothing reads it
    assert layers["FarSighted"].inside(3).tolist() == pytest.approx([2 / 7, 1.0])


def test_groups_are_heads_then_layers_then_all():
    groups = head_groups([2, 1])
    assert groups[1].by_name(["a", "b"]) == {"a": [1]}
    assert groups[-2].by_name(["a", "b"]) == {"b": [0]}
    assert groups[-1].by_name(["a", "b"]) == {"a": [0, 1], "b": [0]}
    assert [group.name for group in head_groups([2, 1], [(1, 0), (0, 1), (1, 0)])] == ["2.1", "1.2"]


@pytest.mark.parametrize("head", [(2, 0), (1, 1), (-1, 0)])
def test_a_head_that_is_not_there_is_refused(head):
    with pytest.raises(UserError, match=f"no head {head[0] + 1}.{head[1] + 1}.*2, 1 heads"):
        head_groups([2, 1], [head])


def test_a_model_none_of_whose_layers_is_read_is_refused():
    with pytest.raises(UserError, match=r"\bpatches\b"):
        head_groups([2, 1], left_out=[0, 1])


@pytest.fixture
def run(tmp_path, monkeypatch):
    return write_mu_run(tmp_path / "run", monkeypatch)


@pytest.mark.slow
def test_a_run_is_tried_head_by_head_and_says_what_it_is_of(run):
    told = []
    path = causal_run(run, num_images=13, batch_size=7, progress=lambda *done: told.append(done))
    found = json.loads(path.read_text())
    assert path == run / "causal.json"
    assert (found["num_images"], found["num_available"], found["window"]) == (13, 23, 3)
    assert found["provenance"]["hardware"]["device"] == "cpu"
    assert [layer["grid"] for layer in found["layers"]] == [[3, 5]] * 2
    boxes = 4 * 4 + 6 * 6 + 2 * 6 + 3 * 9  # corners, long edges, short edges, middle
    assert found["layers"][0]["uniform_inside"] == pytest.approx(boxes / 15**2)
    names = [(entry["heads"], entry["change"]) for entry in found["lost"]]
    groups = ["1.1", "1.2", "layer 1", "all heads"]
    assert names == [(x, y) for x in groups for y in ("inside", "outside", "mean")]
    (remark,) = found["remarks"]
    assert remark.startswith("Layer 2 is left out")
    assert told[-1] == (14, 14)
    assert found["mean_map"] == {"split": "train", "num_images": 13}
    drawn = write_causal_figure(run).read_text()
    assert ">Only outside the window<" in drawn
    assert ">all heads<" in drawn
    assert "baseline" in drawn
    for entry in found["lost"]:
        change = entry["num_spoilt"] - entry["num_mended"]
        assert entry["value"] == change / 13
        assert entry["p_holm"] >= entry["p"]


@pytest.mark.slow
def test_a_run_loses_what_its_model_loses_on_the_images_that_measure_takes(run):
    found = json.loads(causal_run(run, [(0, 1)], num_images=19).read_text())
    assert [entry["heads"] for entry in found["lost"]] == ["1.2"] * 3
    data, model = dataset(), sharp_model()
    pixels = torch.from_numpy(data.test.images[chosen_images(23, 19)]).float() / 255
    mean, std = (torch.tensor(x)[:, None, None] for x in (data.mean, data.std))
    batch, average = (pixels - mean) / std, MeanAttention()
    with torch.no_grad(), AttentionCapture(model, average):
        before = model(batch).argmax(-1) == 0
    layers, other = average.layers(19), MeanAttention()
    num = len(data.train.images)
    num_mean = min(19, num)
    pixels = torch.from_numpy(data.train.images[chosen_images(num, num_mean)]).float() / 255
    with torch.no_grad(), AttentionCapture(model, other):
        model((pixels - mean) / std)
    mean_map = mean_map_rule(other.layers(num_mean))  # of training images, not of those answered
    rules = [window_rule("inside", 3, layers), window_rule("outside", 3, layers), mean_map]
    for entry, rule in zip(found["lost"], rules, strict=True):
        change = Intervention({"blocks.0.attn": [1]}, rule)
        with torch.no_grad(), AttentionCapture(model, lambda call: None, change):
            after = model(batch).argmax(-1) == 0
        assert entry["num_spoilt"] == int((before & ~after).sum())
        assert entry["num_mended"] == int((after & ~before).sum())
    assert found["accuracy"] == pytest.approx(before.double().mean().item())


@pytest.mark.slow
def test_a_layer_is_unread_where_no_rule_changes_the_logits():
    model, batch = sharp_model(), torch.randn(3, 3, 12, 20)
    for pool, expected in (("token", [False, True]), ("avg", [False, False])):
        model.pool = pool
        mean = MeanAttention()
        plain = logits_seen(model, [batch], mean)
        layers = mean.layers(3)
        rules = [window_rule("inside", 1, layers), mean_map_rule(layers)]
        same = [
            all(
                plain.equal(logits_seen(model, [batch], change=Intervention({name: [0, 1]}, rule)))
                for rule in rules
            )
            for name in layers
        ]
        assert unread_layers(model, batch[:1]) == same == expected


@pytest.mark.slow
def test_a_window_that_leaves_nothing_outside_is_said(run):
    found = json.loads(causal_run(run, [(0, 0)], window=7, num_images=5).read_text())
    assert {entry["change"] for entry in found["lost"]} == {"inside", "mean"}
    assert found["remarks"][0].startswith("The change outside is left out")


@pytest.mark.slow
def test_the_command_prints_a_table_of_80_columns_and_the_path(run, nearsight):
    code, out, err = nearsight("study", "causal", str(run), "--num-images", "11")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[-1] == str(run / "causal.json")
    assert all(len(line) <= 80 for line in lines[:-1])
    assert "…" not in out
    assert [line.split()[0] for line in lines if line[:1].isdigit()] == ["1.1", "1.2"]
    assert "11 test images" in out


@pytest.mark.parametrize("text", ["1", "1.0", "1.2.3", "a.b"])
def test_a_head_that_is_no_layer_and_head_is_refused(run, nearsight, text):
    code, _, err = nearsight("study", "causal", str(run), "--head", text)
    assert code == 1
    assert "must be LAYER.HEAD" in err


def test_the_widest_numbers_fit():
    widest = {"value": -0.0949, "low": -0.0944, "high": 1.0, "p_holm": 0.0}
    known = causal_contents()
    lost = [
        known["lost"][0] | widest | {"heads": heads, "change": change}
        for heads in ("10.10", "layer 10", "all heads")
        for change in ("inside", "outside", "mean")
    ]
    layers = [known["layers"][0] | {"inside": [0.123] * 10}] * 10
    contents = causal_contents(lost=lost, layers=layers, num_images=7)
    screen = Console(width=80, file=StringIO())
    screen.print(causal_table(CAUSAL_FILE.record(contents)).rich())
    text = screen.file.getvalue()
    assert "…" not in text
    assert "−9.5*" in text
    assert len(text.splitlines()) == 5
