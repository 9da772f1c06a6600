"""The linear classifier on a GPU: the weights of a processor, to the bit."""

import numpy as np
import pytest

from sfumato import Bounds, PrivateLinearClassifier
from sfumato.core.arrays import to_host
from sfumato.mechanisms.entropy import seeded
from sfumato.models.linear import rows as linear_rows

N_ROWS, WIDTH, N_CLASSES = 700, 40, 3


@pytest.fixture
def cuda():
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    return lambda x: torch.as_tensor(x, device="cuda")


def fitted(rows, labels, **settings):
    model = PrivateLinearClassifier(
        epsilon=4.0,
        delta=1e-5,
        bounds=Bounds(norm=1.0, labels=range(N_CLASSES)),
        **{"n_steps": 25, **settings},
    )
    with seeded(5):
        return model.fit(rows, labels)


@pytest.fixture
def data(rng):
    labels = rng.integers(0, N_CLASSES, N_ROWS)
    rows = rng.normal(size=(N_ROWS, WIDTH)) + np.eye(N_CLASSES, WIDTH)[labels] * 4
    return rows / np.linalg.norm(rows, axis=1, keepdims=True), labels


@pytest.mark.parametrize("relation", ["replace_one", "add_or_remove_one"])
@pytest.mark.parametrize("whiten", [False, True])
def test_weights_are_those_of_a_processor(cuda, data, whiten, relation, monkeypatch):
    """Products and noise are exact; eigenvectors of the released moment are the library's own."""
    plain = linear_rows._eigenvectors

    def on_the_processor(moment, n_components):
        values, vectors = plain(to_host(moment), n_components)
        return values, cuda(vectors.copy()) if moment is not to_host(moment) else vectors

    monkeypatch.setattr(linear_rows, "_eigenvectors", on_the_processor)
    rows, labels = data
    here = fitted(rows, labels, whiten=whiten, relation=relation)
    there = fitted(cuda(rows), labels, whiten=whiten, relation=relation)
    np.testing.assert_array_equal(here.coef_, there.coef_)
    np.testing.assert_array_equal(here.predict(rows), there.predict(cuda(rows)))
    assert here.guarantee_ == there.guarantee_


def test_the_order_of_rows_is_nothing(cuda, data, rng):
    rows, labels = data
    order = rng.permutation(N_ROWS)
    first = fitted(cuda(rows), labels)
    again = fitted(cuda(rows[order]), labels[order])
    np.testing.assert_array_equal(first.coef_, again.coef_)
