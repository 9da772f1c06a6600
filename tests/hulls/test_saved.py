import array_api_strict
import numpy as np
import pytest

import sfumato
from sfumato import Bounds, PrivateAffineHullClassifier
from sfumato.audit.testing import seeded_noise
from sfumato.audit.testing.inspection import Outline, leaves
from sfumato.core.arrays import is_foreign_array, to_numpy
from sfumato.models.hulls import (
    AffineHullClassifier,
    DeepAffineHull,
    KernelAffineHull,
    WideAffineHull,
)


@pytest.mark.parametrize(
    "model",
    [
        KernelAffineHull(5),
        DeepAffineHull(5, n_layers=2, dtype="float32"),
        WideAffineHull(5, n_layers=2, branch_size=100, random_state=0),
        AffineHullClassifier(5, n_layers=2, branch_size=40, random_state=0),
    ],
    ids=lambda model: type(model).__name__,
)
@pytest.mark.parametrize("n_features", [64, 600], ids=["tall", "wide"])
def test_a_loaded_model_answers_as_before(digits, tmp_path, model, n_features):
    X, y = digits
    X = np.tile(X[:300], 10)[:, :n_features]
    labels = np.array(["no", "yes"])[y[:300] % 2]
    sfumato.save(model.fit(X, labels), tmp_path / "model")
    loaded = sfumato.load(tmp_path / "model")
    for name in ("transform", "distance", "membership", "layer_images", "distances", "predict"):
        if hasattr(model, name):
            np.testing.assert_array_equal(getattr(loaded, name)(X), getattr(model, name)(X))
    assert vars(loaded).keys() == vars(model).keys()


def torch_tensor(x):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    return torch.as_tensor(np.array(x))


def holds_foreign_arrays(value):
    """Look without `leaves`, which is under test elsewhere."""
    if isinstance(value, dict):
        return any(map(holds_foreign_arrays, value.values()))
    if isinstance(value, list | tuple):
        return any(map(holds_foreign_arrays, value))
    if is_foreign_array(value):
        return True
    return hasattr(value, "__dict__") and holds_foreign_arrays(vars(value))


@pytest.mark.parametrize(
    "foreign",
    [array_api_strict.asarray, pytest.param(torch_tensor, marks=pytest.mark.torch)],
    ids=["strict", "torch"],
)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("kind", [DeepAffineHull, WideAffineHull, AffineHullClassifier])
def test_tensors_come_back_as_arrays(digits, tmp_path, kind, dtype, foreign):
    X, y = digits[0][:200], digits[1][:200] % 3
    model = kind(5, n_layers=2, dtype=dtype)
    model.fit(foreign(X), y) if kind is AffineHullClassifier else model.fit(foreign(X))
    assert holds_foreign_arrays(model)
    sfumato.save(model, tmp_path / "model")
    loaded = sfumato.load(tmp_path / "model")
    assert not holds_foreign_arrays(loaded)
    here, there = (
        {path: value for path, value in leaves(each) if not isinstance(value, Outline)}
        for each in (model, loaded)
    )
    assert here.keys() == there.keys()
    for path, value in here.items():
        np.testing.assert_array_equal(there[path], to_numpy(value), err_msg=path)
    method = "distances" if kind is AffineHullClassifier else "distance"
    found = getattr(loaded, method)(X)
    assert isinstance(found, np.ndarray)
    expected = to_numpy(getattr(model, method)(foreign(X)))
    np.testing.assert_allclose(found, expected, rtol=1e-9 if dtype == "float64" else 1e-3)


@pytest.mark.torch
def test_a_private_model_fitted_on_a_device_is_saved(digits, tmp_path):
    pytest.importorskip("torch", reason="PyTorch is not installed")
    X, y = digits[0][:100], digits[1][:100] % 3
    bounds = Bounds(lower=0.0, upper=1.0, labels=range(3))
    with seeded_noise(0):
        model = PrivateAffineHullClassifier(
            5,
            samples_per_gaussian=60,
            epsilon=9.0,
            delta=1e-5,
            bounds=bounds,
            device="cpu",
            random_state=0,
        ).fit(X, y)
    sfumato.save(model, tmp_path / "model")
    loaded = sfumato.load(tmp_path / "model")
    assert not holds_foreign_arrays(loaded)
    assert loaded.guarantee_ == model.guarantee_
    np.testing.assert_allclose(loaded.distances(X), model.distances(X), rtol=1e-9)
