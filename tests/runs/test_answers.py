"""Which test images a run answers rightly: a bit each, and none for older runs."""

import numpy as np
import pytest

from nearsight.core import UserError
from nearsight.runs import ANSWERS, read_answers, write_answers


def test_answers_come_back_bit_by_bit_and_are_small(tmp_path):
    correct = np.random.default_rng(0).random(1003) < 0.3
    path = write_answers(tmp_path, correct)
    assert path.stat().st_size < 1003 / 8 + 200
    assert read_answers(tmp_path, 1003).tolist() == correct.tolist()


def test_a_run_without_the_file_has_none_and_a_damaged_one_says_what_to_do(tmp_path):
    assert read_answers(tmp_path, 7) is None
    write_answers(tmp_path, np.ones(17, bool))
    with pytest.raises(UserError, match=r"/test-answers\.npy .*\b3 bytes\b.*\b7 images\b"):
        read_answers(tmp_path, 7)
    (tmp_path / ANSWERS).write_bytes(b"no array")
    with pytest.raises(UserError, match=r"/test-answers\.npy\b"):
        read_answers(tmp_path, 17)
