import numpy as np
import pytest

import sfumato
from sfumato.hulls import AffineHullClassifier, DeepAffineHull, KernelAffineHull, WideAffineHull


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
