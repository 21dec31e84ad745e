"""Arguments that C would read or write outside of memory with are refused in Python."""

import pytest
import torch

from nearsight.native import load_library

LIBRARY = load_library()
pytestmark = pytest.mark.skipif(
    LIBRARY is None, reason="no C compiler when nearsight was installed"
)


def attention(**changed):
    """Three windows of 2 x 8 queries and as many keys, 5 wide, of 2 images and 7 heads."""
    torch.manual_seed(2)
    given = {
        "queries": torch.randn(2, 3, 7, 16, 5),
        "keys": torch.randn(2, 3, 7, 16, 5),
        "bias": torch.randn(2, 3, 7, 16, 16),
        "scale": 0.3,
        "distances": torch.rand(1, 16, 16),
        "near": torch.randint(16, (1, 16, 11)),
        "taken": torch.ones(1, 16, 11),
        "columns": 0,
        "chunk": 4,
    }
    return given | changed


def freed(*shape):
    """A tensor whose memory was given back, as FSDP does."""
    made = torch.randn(shape)
    made.untyped_storage().resize_(0)
    return made


WRONG_ATTENTION = {
    "queries of another type": ({"queries": torch.randn(2, 3, 7, 16, 5).double()}, "float32"),
    "queries of four dimensions": ({"queries": torch.randn(3, 7, 16, 5)}, "5 dimensions"),
    "queries with gaps": ({"queries": torch.randn(2, 3, 7, 5, 16).mT}, "gaps"),
    "queries elsewhere": ({"queries": torch.randn(2, 3, 7, 16, 5, device="meta")}, "CPU"),
    "queries without memory": ({"queries": freed(2, 3, 7, 16, 5)}, "memory for 3360"),
    "a negated view": ({"queries": torch._neg_view(torch.randn(2, 3, 7, 16, 5))}, "negated"),
    "a sparse tensor": ({"bias": torch.zeros(2, 3, 7, 16, 16).to_sparse()}, "sparse"),
    "keys of another width": ({"keys": torch.randn(2, 3, 7, 16, 4)}, r"\[2, 3, 7, 16, 5\]"),
    "keys of fewer heads": ({"keys": torch.randn(2, 3, 1, 16, 5)}, r"\[2, 3, 7, 16, 5\]"),
    "no keys": (
        {
            "keys": torch.randn(2, 3, 7, 0, 5),
            "bias": torch.randn(2, 3, 7, 16, 0),
            "distances": torch.rand(1, 16, 0),
        },
        "at least one key",
    ),
    "a bias of fewer keys": ({"bias": torch.randn(2, 3, 7, 16, 15)}, "bias"),
    "a bias with gaps": ({"bias": torch.randn(2, 3, 7, 16, 32)[..., ::2]}, "gaps"),
    "distances of fewer queries": ({"distances": torch.rand(1, 15, 16)}, "distances"),
    "distances with gaps": ({"distances": torch.rand(1, 16, 32)[..., ::2]}, "gaps"),
    "distances of too few windows": (
        {"near": torch.randint(16, (3, 16, 11)), "taken": torch.ones(3, 16, 11)},
        "distances",
    ),
    "tables of two of three windows": (
        {
            "near": torch.randint(16, (2, 16, 11)),
            "taken": torch.ones(2, 16, 11),
            "distances": torch.rand(2, 16, 16),
        },
        "1 or 3 windows",
    ),
    "a near key after the last": ({"near": torch.full((1, 16, 11), 16)}, r"0\.\.15"),
    "a near key before the first": ({"near": torch.full((1, 16, 11), -1)}, r"0\.\.15"),
    "near keys of 32 bits": ({"near": torch.zeros(1, 16, 11, dtype=torch.int32)}, "int64"),
    "fewer slots taken than there are": ({"taken": torch.ones(1, 16, 10)}, "taken"),
    "chunks of nothing": ({"chunk": 0}, "at least one query"),
    "columns that fill no vector": ({"columns": 4}, "columns in 8s"),
    "columns of another grid": ({"columns": 24}, "24 columns"),
    "columns with distances of pairs": ({"columns": 8}, r"\[2, 15\]"),
}


@pytest.mark.parametrize("case", WRONG_ATTENTION)
def test_wrong_attention_is_refused(case):
    changed, words = WRONG_ATTENTION[case]
    with pytest.raises(ValueError, match=words):
        LIBRARY.attention_sums(**attention(**changed))


def slow_sums(given):
    """Distance, entropy and slots of every row by softmax, [image, window, head, 2 + slot]."""
    logits = given["queries"].double() @ given["keys"].double().mT * given["scale"]
    weights = (logits + given["bias"].double()).softmax(-1)
    distance = (weights * given["distances"].double()[:, None]).sum((-1, -2))
    entropy = torch.special.entr(weights).sum((-1, -2))
    near = given["near"][:, None].expand(*weights.shape[:4], -1)
    slots = (weights.gather(-1, near) * given["taken"].double()[:, None]).sum(-2)
    return torch.cat([distance[..., None], entropy[..., None], slots], -1)


@pytest.mark.parametrize("windows", [1, 3])
def test_right_attention_is_summed(windows):
    tables = {
        "near": torch.randint(16, (windows, 16, 11)),
        "taken": torch.rand(windows, 16, 11),
        "distances": torch.rand(windows, 16, 16),
    }
    given = attention(**tables)
    found = LIBRARY.attention_sums(**given)
    assert found.shape == (4, 2, 3, 7, 13)
    assert torch.allclose(found.sum(0), slow_sums(given), rtol=1e-6, atol=1e-5)


def test_nothing_sums_to_nothing():
    none = {name: torch.randn(0, *attention()[name].shape[1:]) for name in ("queries", "keys")}
    assert LIBRARY.attention_sums(**attention(**none, bias=None)).shape == (4, 0, 3, 7, 13)
    no_slots = {"near": torch.zeros(1, 16, 0, dtype=torch.int64), "taken": torch.zeros(1, 16, 0)}
    given = attention(**no_slots)
    found = LIBRARY.attention_sums(**given).sum(0)
    assert torch.allclose(found, slow_sums(given), rtol=1e-6, atol=1e-5)
