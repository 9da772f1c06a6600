"""The contracts on the private classifier of images."""

import array_api_strict
import numpy as np
import pytest
from sklearn.datasets import load_digits

from sfumato import Bounds, HOGFeatures, PrivateImageClassifier
from sfumato.audit.testing import PRIVATE_CHECKS, PrivateCase
from sfumato.models.image_features import images
from sfumato.privacy.guarantee import Status

# Corners of the unit ball are not images, so a pair need not attain the sensitivity; its noise law
# is that of the linear classifier, which has its own cases.
LEFT_OUT = {"check_sensitivity", "check_noise_law"}


@pytest.mark.parametrize("relation", ["replace_one", "add_or_remove_one"])
@pytest.mark.parametrize(
    "check", [each for each in PRIVATE_CHECKS if each.__name__ not in LEFT_OUT]
)
def test_private_contract(check, relation):
    X, y = load_digits(return_X_y=True)
    bounds = Bounds(lower=0, upper=16, labels=[0, 1])
    model = PrivateImageClassifier("hog", delta=1e-5, relation=relation, bounds=bounds)
    corners = np.array([[0.0] * 64, [16.0, 0.0] * 32])
    check(PrivateCase(model, X[:60], y[:60] % 2, rows_at_bound=corners))


def test_another_library_must_treat_images_alike(rng):
    X, y = rng.random((30, 64)), np.arange(30) % 2
    bounds = Bounds(lower=0, upper=1, labels=range(2))
    model = PrivateImageClassifier("hog", delta=1e-5, bounds=bounds)
    assert not model.fit(X, y).guarantee_.conditions
    conditions = model.fit(array_api_strict.asarray(X), y).guarantee_.conditions
    assert any("same features of an image alone" in condition for condition in conditions)
    assert model.guarantee_.status is Status.CONDITIONAL


def test_a_fit_on_an_accelerator_takes_each_image_alone(rng, monkeypatch):
    """Last bits of features were found to depend on the batch there."""
    sizes = []
    plain = HOGFeatures._describe
    monkeypatch.setattr(images, "is_accelerated", lambda rows: True)
    monkeypatch.setattr(
        HOGFeatures, "_describe", lambda self, x: (sizes.append(x.shape[0]), plain(self, x))[1]
    )
    X, y = rng.random((30, 64)), np.arange(30) % 2
    bounds = Bounds(lower=0, upper=1, labels=range(2))
    model = PrivateImageClassifier("hog", delta=1e-5, bounds=bounds).fit(X, y)
    assert set(sizes) == {1}
    model.predict(X)
    assert max(sizes) == images.ACCELERATED_BLOCK
