"""Nearest neighbours are exact: the same as faiss, scikit-learn and a full sort."""

from __future__ import annotations

import faiss
import numpy as np
import pytest
import torch
from sklearn.neighbors import NearestNeighbors

from nearsight.core import UserError
from nearsight.evaluate.solvers import nearest


def vectors(count, width, seed):
    return torch.randn(count, width, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("num", [7, 31, 32, 33, 1009])
def test_neighbours_are_those_of_a_full_sort(num) -> None:
    memory, queries = vectors(num, 13, 0), vectors(5, 13, 1)
    products, found = nearest(memory, queries, 7)
    expected = (queries @ memory.T).sort(descending=True)
    torch.testing.assert_close(products, expected.values[:, :7])
    assert torch.equal(found, expected.indices[:, :7])


def test_neighbours_are_those_of_faiss() -> None:
    memory, queries = vectors(5003, 17, 2), vectors(701, 17, 3)
    index = faiss.IndexFlatIP(17)
    index.add(memory.numpy())
    products, found = index.search(queries.numpy(), 30)
    ours, where = nearest(memory, queries, 30)
    np.testing.assert_allclose(ours, products, rtol=1e-5, atol=1e-5)
    exact = queries.double() @ memory.double().T
    other = where.numpy() != found  # only where rounding decides
    gap = exact.gather(1, where) - exact.gather(1, torch.from_numpy(found))
    assert other.mean() < 1e-3
    assert gap[torch.from_numpy(other)].abs().max() < 1e-5 if other.any() else True


def test_cosines_are_those_of_scikit_learn() -> None:
    memory, queries = vectors(307, 11, 4), vectors(19, 11, 5)
    slow = NearestNeighbors(n_neighbors=5, metric="cosine", algorithm="brute").fit(memory.numpy())
    distances, found = slow.kneighbors(queries.numpy())
    cosines, where = nearest(memory, queries, 5, by="cosine")
    np.testing.assert_allclose(1 - cosines, distances, atol=1e-6)
    np.testing.assert_array_equal(where, found)


def test_distances_are_those_of_scikit_learn_after_a_scale() -> None:
    memory, queries = 3 + vectors(307, 11, 4), 3 + vectors(19, 11, 5)
    slow = NearestNeighbors(n_neighbors=5, algorithm="brute").fit(2 * memory.numpy())
    distances, expected = slow.kneighbors(2 * queries.numpy())
    values, where = nearest(memory, queries, 5, by="euclidean", prepare=lambda x: 2 * x)
    lengths = (2 * queries).square().sum(1, keepdim=True)
    np.testing.assert_allclose((lengths - 2 * values).sqrt(), distances, rtol=1e-3)
    np.testing.assert_array_equal(where, expected)


def test_chosen_rows_are_named_by_their_place_in_the_memory() -> None:
    memory, queries = vectors(101, 5, 8), vectors(7, 5, 9)
    rows = np.arange(1, 101, 3)
    products, found = nearest(memory, queries, 3, rows=rows)
    expected = (queries @ memory[rows].T).topk(3)
    assert torch.equal(found, torch.from_numpy(rows)[expected.indices])
    torch.testing.assert_close(products, expected.values)


def test_a_memory_on_disk_is_streamed_with_the_same_result(tmp_path) -> None:
    plain = vectors(503, 7, 6).half()
    memory = np.memmap(tmp_path / "memory", np.float16, "w+", shape=(503, 7))
    memory[:] = plain.numpy()
    queries = vectors(23, 7, 7)
    streamed = nearest(memory, queries, 11, held=7 * 64)
    whole = nearest(plain, queries, 11)
    torch.testing.assert_close(streamed[0], whole[0])
    assert torch.equal(streamed[1], whole[1])


def test_fewer_vectors_than_neighbours_are_an_error() -> None:
    with pytest.raises(UserError, match=r"\b30 neighbours\b.*\b29\b"):
        nearest(vectors(29, 3, 0), vectors(2, 3, 1), 30)
