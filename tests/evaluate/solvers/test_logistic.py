"""Logistic regression is that of scikit-learn, also with weights and shares."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize, rosen, rosen_der
from scipy.sparse import csr_array
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from nearsight.core import UserError
from nearsight.evaluate.solvers import LabelledRows, LogisticProblem, logistic
from nearsight.evaluate.solvers.lbfgs import minimise


def made_examples(rows=401, width=7, classes=3, seed=0):
    random = np.random.RandomState(seed)
    features = random.randn(rows, width) * random.rand(width) * 5 + random.randn(width) * 9
    shares = random.dirichlet([0.3] * classes, rows)
    shares[features[:, 0] > features[:, 0].mean(), 0] += 1
    shares[shares < 0.1] = 0
    return features.astype(np.float16), shares.astype(np.float32)


@pytest.mark.parametrize("c", [0.01, 1.0])
def test_the_solution_is_scikit_learns_with_a_row_for_each_share(c) -> None:
    features, shares = made_examples()
    problem = LogisticProblem(LabelledRows(features, csr_array(shares), np.arange(401)))
    found = problem.fit(c, tolerance=1e-6)
    scaled = StandardScaler().fit(features.astype(np.float64))
    rows, labels = np.nonzero(shares)
    slow = LogisticRegression(C=c, tol=1e-9, max_iter=5000)
    slow.fit(scaled.transform(features[rows]), labels, sample_weight=shares[rows, labels])
    expected = slow.decision_function(scaled.transform(features))
    ours = found.logits(features).numpy()
    centred = ours - ours.mean(1, keepdims=True)  # an equal shift of all logits means nothing
    np.testing.assert_allclose(centred, expected - expected.mean(1, keepdims=True), atol=2e-3)
    assert found.converged


def test_some_rows_are_fitted_as_if_there_were_no_others() -> None:
    features, shares = made_examples()
    rows = np.arange(0, 401, 2)
    some = LogisticProblem(LabelledRows(features, csr_array(shares), rows)).fit(0.1)
    alone = LogisticProblem(
        LabelledRows(features[rows], csr_array(shares[rows]), np.arange(len(rows)))
    ).fit(0.1)
    np.testing.assert_array_equal(some.weight, alone.weight)


def test_rows_that_are_read_at_every_step_give_the_same_bytes(monkeypatch) -> None:
    features, shares = made_examples()
    examples = LabelledRows(features, csr_array(shares), np.arange(401))
    held = LogisticProblem(examples).fit(0.1)
    monkeypatch.setattr(logistic, "HELD", 0)
    streamed = LogisticProblem(examples).fit(0.1)
    assert held.weight.tobytes() == streamed.weight.tobytes()


def test_another_start_has_the_same_solution() -> None:
    features, shares = made_examples()
    problem = LogisticProblem(LabelledRows(features, csr_array(shares), np.arange(401)))
    cold = problem.fit(1.0, tolerance=1e-6)
    warm = problem.fit(1.0, problem.fit(1e-3), tolerance=1e-6)
    np.testing.assert_allclose(cold.weight, warm.weight, atol=3e-3)


def test_examples_without_a_label_are_an_error() -> None:
    features, shares = made_examples()
    with pytest.raises(UserError, match="--num-train"):
        LogisticProblem(LabelledRows(features, csr_array(0 * shares), np.arange(401)))


def test_lbfgs_finds_the_minimum_of_rosenbrocks_valley() -> None:
    start = np.array([-1.2, 1.0, 0.7, -0.4, 2.0])
    found = minimise(lambda x: (rosen(x), rosen_der(x)), start, tolerance=1e-8)
    expected = minimize(rosen, start, jac=rosen_der, method="L-BFGS-B", tol=1e-12)
    np.testing.assert_allclose(found.place, expected.x, atol=1e-5)
    assert found.steps < 200


def test_lbfgs_says_where_it_ran_out_of_steps() -> None:
    found = minimise(lambda x: (rosen(x), rosen_der(x)), np.array([-1.2, 1.0]), most=3)
    assert not found.converged
    assert found.steps == 3
