"""A stored model of any class that was altered and sealed again is refused, or answers numbers.

A share of all alterations is tried.
"""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest

import sfumato
from sfumato.exceptions import StoredModelError
from sfumato.models import saving as models
from tests.storage.stored_models import (
    MODELS,
    alterations,
    answers,
    fitted,
    members_of,
    reseal,
    verdict,
)

TRIED = 12  # alterations of each model, spread over all of them


def test_every_class_that_can_be_saved_declares_its_form():
    known = {name: models._public_class(name) for name in sfumato._MODULE_OF}
    classes = {name: kind for name, kind in known.items() if kind is not None}
    assert all(isinstance(kind.stored_form, dict) for kind in classes.values())
    assert {type(model).__name__ for model, _ in MODELS.values()} == set(classes)


@pytest.mark.parametrize("name", MODELS)
def test_altered_models_are_refused_by_name_or_answer(tmp_path, name):
    path = tmp_path / "model.sfumato"
    model, rows = fitted(name)
    sfumato.save(model, path)
    for before, after in zip(answers(model, rows), answers(sfumato.load(path), rows), strict=True):
        if isinstance(before, np.ndarray):
            np.testing.assert_array_equal(before, after)
    members = members_of(path)
    n_all = sum(1 for _ in alterations(members))
    found = {}
    for what, make in islice(alterations(members), 3, None, max(1, n_all // TRIED)):
        reseal(path, make())
        found[what] = verdict(path, rows)
    assert set(found.values()) <= {"refused", "answers", "refused when asked"}, found
    assert "refused" in found.values()


@pytest.mark.parametrize(
    ("name", "attribute", "value", "said"),
    [
        ("PrivateLinearClassifier-0", "coef_", np.full((3, 4), np.nan), "coef_"),
        ("PrivateLinearClassifier-0", "coef_", np.zeros((3, 9)), "coef_"),
        ("PrivateGaussianClassifier-0", "covariances_", -np.ones((3, 5, 5)), "positive definite"),
        ("PrivateGaussianClassifier-0", "radius_", 0.0, "radius_"),
        ("GaussianFabricator-0", "random_state", "x", "random_state"),
        ("PrivateMeanCurve-0", "points_", np.zeros(20), "increase"),
        ("PrivatePCA-0", "more_", 1, "no attribute 'more_'"),
    ],
)
def test_the_error_names_file_and_value(tmp_path, name, attribute, value, said):
    model, _ = fitted(name)
    setattr(model, attribute, value)
    sfumato.save(model, tmp_path / "odd.sfumato")
    with pytest.raises(StoredModelError, match=rf"odd\.sfumato.*{said}"):
        sfumato.load(tmp_path / "odd.sfumato")


def test_a_model_that_was_not_fitted_is_stored_as_it_is(tmp_path):
    sfumato.save(sfumato.PrivateLinearClassifier(n_steps=7), tmp_path / "model")
    assert sfumato.load(tmp_path / "model").n_steps == 7
