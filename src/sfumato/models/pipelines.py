"""Pipelines whose promise is true: no step before a private one may learn from the rows.

A scaler, imputer or encoder that is fitted to raw rows before a private estimator makes the printed
promise false: its means, medians or categories are released with no noise. Steps that treat each
row on its own, with public parameters alone, cost nothing.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.pipeline import FeatureUnion, Pipeline

from sfumato.exceptions import InvalidInputError
from sfumato.models.base import PrivateEstimator
from sfumato.models.image_features import ImageFeatures
from sfumato.tables.encoder import TableEncoder

# Steps of scikit-learn that learn nothing from rows: they treat each row on its own, or draw random
# features by the number of columns alone. Products of dense matrices round a row by its neighbours.
ROW_WISE = (
    *("Normalizer", "Binarizer", "PolynomialFeatures", "PolynomialCountSketch"),
    "SparseRandomProjection",
)
LISTED = ("OneHotEncoder", "OrdinalEncoder")  # with public categories they learn nothing
REPLACEMENTS = {  # and the steps that each stands in for
    "Bounds(lower=[...], upper=[...]) scale columns by public ranges": (
        "StandardScaler MinMaxScaler MaxAbsScaler RobustScaler"
    ),
    "TableBounds lists the categories (TableEncoder, or bounds= of the estimator)": (
        "OneHotEncoder OrdinalEncoder TargetEncoder LabelEncoder"
    ),
    "TableBounds has 'fill' and 'missing' (TableEncoder, or bounds= of the estimator)": (
        "SimpleImputer KNNImputer IterativeImputer MissingIndicator"
    ),
    "TableBounds has 'log' for long tails": "PowerTransformer",
    "PrivateAdditiveClassifier releases quantiles of columns privately": (
        "QuantileTransformer KBinsDiscretizer SplineTransformer"
    ),
    "PrivatePCA, or n_components of the private estimator": (
        "PCA TruncatedSVD KernelPCA GaussianRandomProjection"
    ),
    "PrivateKernelClassifier has random features of its own": "RBFSampler Nystroem",
}


def check_pipeline(pipeline: Pipeline) -> Pipeline:
    """Refuse a pipeline in which something is learned from rows before a private step.

    The `fit` of a private step makes this check of every pipeline that calls it.

    Parameters
    ----------
    pipeline : Pipeline
        Fitted or not.

    Returns
    -------
    Pipeline
        The same pipeline.

    Notes
    -----
    scikit-learn's own steps raise an error if a row has a missing or infinite number, which would
    reveal that such a record exists. Put a `TableEncoder` before them; its rows have none.

    Examples
    --------
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import Normalizer, StandardScaler
    >>> from sfumato import Bounds, PrivateLinearClassifier, TableEncoder, check_pipeline
    >>> linear = PrivateLinearClassifier(bounds=Bounds(norm=1.0, labels=[0, 1]))
    >>> encoder = TableEncoder(Bounds(norm=1.0))
    >>> len(check_pipeline(make_pipeline(encoder, Normalizer(), linear)))
    3
    >>> check_pipeline(make_pipeline(StandardScaler(), linear))
    Traceback (most recent call last):
    ...
    sfumato.exceptions.InvalidInputError: The step 'standardscaler' ... public ranges.
    """
    is_private = [isinstance(step, PrivateEstimator) for _, step in pipeline.steps]
    if True not in is_private:
        raise InvalidInputError(
            "The pipeline has no private step: nothing protects what it learns from its rows."
        )
    before = pipeline.steps[: is_private.index(True)]
    for name, step in before:
        _require_row_wise(name, step)
    for name, step in before:
        if isinstance(step, TableEncoder | ImageFeatures):  # every row has numbers from here on
            break
        if type(step).__module__.startswith("sklearn.") and not _has_categories(step):
            raise InvalidInputError(
                f"The step {name!r} ({type(step).__name__}) fails if a row contains text, or a "
                "missing or infinite number, and the error would reveal that row. Put "
                "TableEncoder(bounds) before it: it gives such a row a public default."
            )
    return pipeline


def _has_categories(step: Any) -> bool:
    """Return whether an encoder of scikit-learn has its categories and ignores other cells."""
    return type(step).__name__ in LISTED and (
        step.categories != "auto" and step.handle_unknown != "error"
    )


def _require_row_wise(name: str, step: Any) -> None:
    if step is None or isinstance(step, str | TableEncoder | ImageFeatures):
        return
    kind = type(step).__name__
    is_known = type(step).__module__.startswith("sklearn.")
    parts = None
    if isinstance(step, FeatureUnion | Pipeline):
        parts = step.transformer_list if isinstance(step, FeatureUnion) else step.steps
    elif is_known and kind == "ColumnTransformer":
        parts = [(part, each) for part, each, _ in step.transformers]
        parts.append(("remainder", step.remainder))
        if any(callable(columns) for _, _, columns in step.transformers):
            raise InvalidInputError(
                f"The step {name!r} chooses columns by the rows. List their names."
            )
    if parts is not None:
        for part, each in parts:
            _require_row_wise(f"{name}/{part}", each)
        return
    if is_known and kind == "FunctionTransformer":  # of NumPy's functions of single numbers alone
        checks_rows = step.inverse_func is not None and step.check_inverse  # and warns about them
        if (step.func is None or isinstance(step.func, np.ufunc)) and not checks_rows:
            return
    if is_known and (kind in ROW_WISE or _has_categories(step)):
        return
    if getattr(step, "is_row_wise", False) is True:  # what a step of another library may declare
        return
    advice = "If it treats each row alone, by public facts, set its attribute is_row_wise = True."
    for replacement, kinds in REPLACEMENTS.items():
        if kind in kinds.split():
            advice = f"Use instead: {replacement}."
    raise InvalidInputError(
        f"The step {name!r} ({kind}) learns from raw rows, or lets a row depend on others, or may "
        "do so: no noise covers that, and the guarantee of the private step would be false. "
        f"{advice}"
    )
