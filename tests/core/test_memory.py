"""keep_freed_memory: the second step finds the pages of the first."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

from nearsight.core.memory import is_out_of_memory

STEPS = """
import resource, sys, torch
from nearsight.core.memory import is_out_of_memory, keep_freed_memory

def step():
    return [torch.zeros(1024, 1021) for _ in range(53)]  # 53 activations of 4 MB, freed on return

kept = sys.argv[1] == "keep" and keep_freed_memory()
step(), step()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
step()
print(kept, resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc's allocator")
@pytest.mark.processes
def test_memory_freed_by_one_step_is_not_faulted_in_again_by_the_next():
    faults = {}
    for choice in ("keep", "release"):
        command = [sys.executable, "-c", STEPS, choice]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        kept, count = done.stdout.split()
        if choice == "keep" and kept == "False":
            pytest.skip("the C library here has no mallopt")
        faults[choice] = int(count)
    assert faults["keep"] < 1_000
    assert faults["release"] > 10 * faults["keep"]


def test_torch_on_a_cpu_says_in_words_that_memory_ran_out():
    with pytest.raises(RuntimeError) as found:
        torch.empty(2**60)
    assert is_out_of_memory(found.value)
