"""Pipelines whose promise is true: no step before a private one may learn from the rows.

A scaler, imputer or encoder that is fitted to raw rows before a private estimator makes the printed
promise false: its means, medians or categories are released with no noise. Steps that treat each
row by itself, with public parameters alone, cost nothing.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline

from sfumato.exceptions import InvalidInputError
from sfumato.models.base import PrivateEstimator
from sfumato.models.image_features import ImageFeatures
from sfumato.tables.encoder import TableEncoder

# Steps of scikit-learn that learn nothing from rows, whatever their parameters, and refuse none but
# those with a missing or infinite number.
ROW_WISE = ("Normalizer", "Binarizer", "PolynomialFeatures")
# Steps that draw random features by the number of columns alone.
SHAPE_ONLY = (
    *("RBFSampler", "PolynomialCountSketch", "GaussianRandomProjection", "SparseRandomProjection"),
)
PUBLIC_BOUNDS = "Bounds(lower=[...], upper=[...]) scale columns by public ranges"
PUBLIC_CATEGORIES = "TableBounds lists the categories (TableEncoder, or bounds= of the estimator)"
PUBLIC_FILL = "TableBounds has 'fill' and 'missing' (TableEncoder, or bounds= of the estimator)"
QUANTILES = "PrivateAdditiveClassifier releases quantiles of columns privately"
COMPONENTS = "PrivatePCA, or n_components of the private estimator"
SCALERS = ("StandardScaler", "MinMaxScaler", "MaxAbsScaler", "RobustScaler")
IMPUTERS = ("SimpleImputer", "KNNImputer", "IterativeImputer", "MissingIndicator")
LISTED = ("OneHotEncoder", "OrdinalEncoder")  # with public categories they learn nothing
ENCODERS = ("OneHotEncoder", "OrdinalEncoder", "TargetEncoder", "LabelEncoder")
REPLACEMENTS = {
    **dict.fromkeys(SCALERS, PUBLIC_BOUNDS),
    **dict.fromkeys(("QuantileTransformer", "KBinsDiscretizer"), QUANTILES),
    "SplineTransformer": "PrivateAdditiveClassifier has curves at private knots",
    "PowerTransformer": "TableBounds has 'log' for long tails",
    **dict.fromkeys(IMPUTERS, PUBLIC_FILL),
    **dict.fromkeys(ENCODERS, PUBLIC_CATEGORIES),
    **dict.fromkeys(("PCA", "TruncatedSVD", "KernelPCA"), COMPONENTS),
}


def private_pipeline(*steps: Any, memory: Any = None) -> Pipeline:
    """Build a pipeline of public, row-wise steps and a private estimator.

    Parameters
    ----------
    *steps : estimator
        Steps; the last one, or one before it, is a private estimator of Sfumato.
    memory : str or object, optional
        As in scikit-learn; a cache keeps encoded rows and must be as safe as the rows.

    Returns
    -------
    Pipeline
        An ordinary pipeline of scikit-learn, which can be cloned and cross-validated.

    Raises
    ------
    InvalidInputError
        A step before the private one learns from raw rows, or fails because of one of them; the
        message names what replaces it.

    See Also
    --------
    check_pipeline : The same check for a pipeline that exists.

    Examples
    --------
    >>> from sklearn.preprocessing import Normalizer, StandardScaler
    >>> from sfumato import Bounds, PrivateLinearClassifier, TableEncoder, private_pipeline
    >>> linear = PrivateLinearClassifier(bounds=Bounds(norm=1.0, labels=[0, 1]))
    >>> len(private_pipeline(TableEncoder(Bounds(norm=1.0)), Normalizer(), linear))
    3
    >>> private_pipeline(StandardScaler(), linear)
    Traceback (most recent call last):
    ...
    sfumato.exceptions.InvalidInputError: The step 'standardscaler' ... public ranges.
    """
    return check_pipeline(make_pipeline(*steps, memory=memory))


def check_pipeline(pipeline: Pipeline) -> Pipeline:
    """Refuse a pipeline in which something is learned from rows before a private step.

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
    reveal that such a record exists. Put a `TableEncoder` before them; its rows have none. A
    `OneHotEncoder` with listed categories and ``handle_unknown="ignore"`` takes cells of any kind
    but lists. The `fit` of a private step makes this check of every pipeline that it is called by.
    """
    before: list[tuple[str, Any]] = []
    for name, step in pipeline.steps:
        if isinstance(step, PrivateEstimator):
            for other, earlier in before:
                _require_row_wise(other, earlier)
            for other, earlier in before:  # up to the first that gives every row a default
                if isinstance(earlier, TableEncoder | ImageFeatures):
                    break
                if type(earlier).__module__.startswith("sklearn.") and not _has_categories(earlier):
                    raise InvalidInputError(
                        f"The step {other!r} ({type(earlier).__name__}) fails if a row contains "
                        "text, or a missing or infinite number, and the error would reveal that "
                        "row. Put TableEncoder(bounds) before it: it gives such a row a public "
                        "default."
                    )
            return pipeline
        before.append((name, step))
    raise InvalidInputError(
        "The pipeline has no private step: nothing protects what it learns from its rows."
    )


def _has_categories(step: Any) -> bool:
    """Return whether an encoder is given its categories, and takes any other cell for none."""
    is_known = type(step).__module__.startswith("sklearn.") and type(step).__name__ in LISTED
    return is_known and step.categories != "auto" and step.handle_unknown != "error"


def _require_row_wise(name: str, step: Any) -> None:
    if step is None or isinstance(step, str | TableEncoder | ImageFeatures):
        return
    kind = type(step).__name__
    is_known = type(step).__module__.startswith("sklearn.")
    if isinstance(step, FeatureUnion | Pipeline):
        parts = step.transformer_list if isinstance(step, FeatureUnion) else step.steps
        for part, each in parts:
            _require_row_wise(f"{name}/{part}", each)
        return
    if is_known and kind == "ColumnTransformer":
        for part, each, columns in step.transformers:
            _require_row_wise(f"{name}/{part}", each)
            if callable(columns):
                raise InvalidInputError(
                    f"The step {name}/{part} chooses its columns by the rows. List their names."
                )
        _require_row_wise(f"{name}/remainder", step.remainder)
        return
    if is_known and kind == "FunctionTransformer":  # of NumPy's functions of single numbers alone
        checks_rows = step.inverse_func is not None and step.check_inverse  # and warns about them
        if (step.func is None or isinstance(step.func, np.ufunc)) and not checks_rows:
            return
    if is_known and (kind in ROW_WISE + SHAPE_ONLY or _has_categories(step)):
        return
    if getattr(step, "is_row_wise", False) is True:  # what a step of another library may declare
        return
    replaced = REPLACEMENTS.get(kind)
    advice = (
        f"Use instead: {replaced}."
        if replaced
        else "If it treats each row by itself, by public facts alone, give it the attribute "
        "is_row_wise = True."
    )
    raise InvalidInputError(
        f"The step {name!r} ({kind}) learns from raw rows, or may do so; what it learns would be "
        "released without protection, and the guarantee of the private step would be "
        f"false. {advice}"
    )
