"""Nothing before a private step may learn from rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.decomposition import PCA
from sklearn.impute import SimpleImputer
from sklearn.kernel_approximation import RBFSampler
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline, make_union
from sklearn.preprocessing import (
    FunctionTransformer,
    MinMaxScaler,
    Normalizer,
    OneHotEncoder,
    PolynomialFeatures,
    StandardScaler,
)
from sklearn.random_projection import GaussianRandomProjection

from sfumato import (
    Bounds,
    PrivateLinearClassifier,
    PrivatePCA,
    TableBounds,
    TableEncoder,
    check_pipeline,
)
from sfumato.exceptions import InvalidInputError

BALL = Bounds(norm=9.0)
LINEAR = PrivateLinearClassifier(epsilon=20.0, delta=1e-5, bounds=Bounds(norm=1.0, labels=[0, 1]))


@pytest.mark.parametrize(
    ("step", "advice"),
    [
        (StandardScaler(), "public ranges"),
        (MinMaxScaler(), "public ranges"),
        (SimpleImputer(), "'fill'"),
        (OneHotEncoder(), "categories"),
        (PCA(2), "PrivatePCA"),
        (GaussianRandomProjection(2), "PrivatePCA"),  # of four rows, one less moved others
        (RBFSampler(), "PrivateKernelClassifier"),
        (make_union(Normalizer(), StandardScaler()), "public ranges"),
        (make_pipeline(Normalizer(), PCA(2)), "PrivatePCA"),
        (make_column_transformer((OneHotEncoder(), [0])), "categories"),
        (make_column_transformer((Normalizer(), [0]), remainder=StandardScaler()), "public ranges"),
        (make_column_transformer((Normalizer(), make_column_selector())), "List their names"),
        (FunctionTransformer(lambda X: X - X.mean(axis=0)), "is_row_wise"),
        (FunctionTransformer(np.exp, inverse_func=np.log), "is_row_wise"),
        (Normalizer(), "TableEncoder"),
        (make_union(TableEncoder(BALL), Normalizer()), "TableEncoder"),
    ],
)
def test_what_learns_from_rows_is_refused_with_what_replaces_it(step: Any, advice: str) -> None:
    with pytest.raises(InvalidInputError) as error:
        check_pipeline(make_pipeline(step, LINEAR))
    assert advice in str(error.value)


def test_row_wise_steps_pass_and_cross_validation_works() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 3))
    y = (X[:, 0] > 0).astype(int)
    found = make_pipeline(
        TableEncoder(BALL),
        FunctionTransformer(np.sign),
        PolynomialFeatures(1),
        Normalizer(),
        LINEAR,
    )
    assert cross_val_score(found, X, y, cv=3).mean() > 0.9
    for odd in (np.nan, np.inf, 1e308, "text", None):  # no error and no warning about a record
        rows = X.astype(object)
        rows[0, 0] = odd
        found.fit(rows, y)
    table = TableBounds.from_dict({"a": (-3, 3), "b": (-3, 3), "c": (-3, 3)})
    rows = TableEncoder(table).row_bounds(labels=[0, 1])
    linear = PrivateLinearClassifier(epsilon=20.0, delta=1e-5, bounds=rows)
    frame = pd.DataFrame(X, columns=list("abc"))
    assert cross_val_score(make_pipeline(TableEncoder(table), linear), frame, y).mean() > 0.9


def test_steps_after_the_private_one_are_free() -> None:
    private = PrivatePCA(n_components=2, bounds=Bounds(norm=1.0))
    assert check_pipeline(make_pipeline(TableEncoder(BALL), private, StandardScaler()))


class Strange(Normalizer):
    """A step of somebody else."""


def test_strange_steps_must_declare_themselves() -> None:
    with pytest.raises(InvalidInputError, match="is_row_wise"):
        check_pipeline(make_pipeline(Strange(), LINEAR))
    Strange.is_row_wise = True
    try:
        check_pipeline(make_pipeline(Strange(), LINEAR))
    finally:
        del Strange.is_row_wise
    with pytest.raises(InvalidInputError, match="no private step"):
        check_pipeline(make_pipeline(StandardScaler(), Normalizer()))


def test_fit_looks_at_the_pipeline_that_calls_it() -> None:
    """It printed "Proved" after a scaler had learned from the rows."""
    X, y = np.random.default_rng(0).random((60, 2)), np.arange(60) % 2
    last = PrivateLinearClassifier(bounds={"norm": 2.0, "labels": [0, 1]})
    with pytest.raises(InvalidInputError, match=r"'standardscaler'.*learns from raw rows"):
        make_pipeline(StandardScaler(), last).fit(X, y)
    listed = OneHotEncoder(categories=[["a", "b"]], handle_unknown="ignore", sparse_output=False)
    words = np.where(y == 0, "a", "b").astype(object)[:, None]
    model = make_pipeline(listed, last).fit(words, y)
    assert model[-1].guarantee_.epsilon == 1.0
    with pytest.raises(InvalidInputError, match="onehotencoder"):
        make_pipeline(OneHotEncoder(sparse_output=False), last).fit(words, y)


def test_a_table_model_is_not_asked_about_arrays() -> None:
    """Two columns of an array were taken for rows that are encoded already."""
    rows = np.random.default_rng(0).random((60, 2))
    table = pd.DataFrame({"a": rows[:, 0], "b": rows[:, 1], "y": np.arange(60) % 2})
    facts = {"columns": {"a": (0, 10), "b": (0, 10), "y": [0, 1]}, "target": "y"}
    model = PrivateLinearClassifier(bounds=facts).fit(table)
    with pytest.raises(InvalidInputError, match="give PrivateLinearClassifier the table itself"):
        model.predict(rows)
    assert (model.predict(model.table_rows(table)) == model.predict(table)).all()
