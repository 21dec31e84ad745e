"""Since when a head is local: the epoch from which on it stays below a threshold."""

import pytest
from runs.made_records import looked

from nearsight.report.read.emergence import head_epochs, settled_epoch, thresholds


@pytest.mark.parametrize(
    ("values", "epoch"),
    [
        ((0.5, 0.3, 0.3, 0.2), 2),
        ((0.3, 0.5, 0.3, 0.3), 5),  # left and came back
        ((0.3, 0.3, 0.3, 0.3), 0),  # from the start on
        ((0.5, 0.5, 0.5, 0.3), 9),  # in the last look only
        ((0.3, 0.3, 0.3, 0.5), None),  # lost at the end
        ((0.5, 0.3, 0.4, 0.3), 9),  # at the threshold is not below it
    ],
)
def test_a_head_settles_at_the_first_look_from_which_on_it_stays_below(values, epoch):
    assert settled_epoch(list(zip((0, 2, 5, 9), values, strict=True)), 0.4) == epoch


def test_every_layer_has_its_own_threshold_and_looks_are_taken_in_order_of_epochs():
    maps = {
        4: [[0.1, 0.4, 0.2], [0.1, 0.4, 0.2]],
        0: [[0.5, 0.5, 0.5], [0.5, 0.5, 0.5]],
        2: [[0.2, 0.2, 0.4], [0.2, 0.2, 0.4]],
    }
    lines = [
        {"epoch": epoch, "attention": {"num_images": 7, "mad": {"mean": mad}}}
        for epoch, mad in maps.items()
    ]
    assert head_epochs(looked(lines), [0.3, 0.45]) == [[2, None, 4], [2, 2, 2]]


def test_thresholds_lie_where_their_words_say():
    found = thresholds({"uniform_mad": 0.47, "box_mad": 0.23})
    assert found == {"leaning": pytest.approx(0.423), "local": pytest.approx(0.35)}
