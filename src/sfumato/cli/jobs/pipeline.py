"""From a table to a private model or private rows: what the command line and services call.

::

    table file --TableBounds, confirmed--> estimator(bounds=...).fit(table) --> model, guarantee

A model made here is an ordinary estimator. Its parameter `bounds` is that of the table, so that it
answers tables after it was saved and loaded.
"""

from __future__ import annotations

import os
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from inspect import signature
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from sklearn.base import is_classifier
from sklearn.utils.validation import check_is_fitted

import sfumato
from sfumato.exceptions import InvalidInputError, MissingBoundsError, UnsupportedModeError
from sfumato.models.base import unlisted_cells
from sfumato.privacy.guarantee import Relation, Unit
from sfumato.sums.partitions import Partitions
from sfumato.sums.table_parts import GLOB, FileParts
from sfumato.tables.columns import arrow
from sfumato.tables.files import TableFile
from sfumato.tables.schema import TableBounds
from sfumato.tables.text import TextFormat

# The names of the command line, and the public classes they stand for.
MODELS = {
    "additive": "PrivateAdditiveClassifier",
    "additive-regressor": "PrivateAdditiveRegressor",
    "gaussian": "PrivateGaussianClassifier",
    "hull": "PrivateAffineHullClassifier",
    "kernel": "PrivateKernelClassifier",
    "kernel-regressor": "PrivateKernelRegressor",
    "large-margin": "PrivateLargeMarginGaussianClassifier",
    "linear": "PrivateLinearClassifier",
    "regressor": "PrivateLinearRegressor",
}
FEW_COLUMNS, ROWS_PER_COLUMN = 200, 5  # up to which curves are worth their noise
LONG = 2**23  # cells of a table that is not read as a whole where a model can do without


@dataclass(frozen=True)
class PrivacyRequest:
    """What is asked of a release: the budget, what it protects, and who pays."""

    epsilon: float
    delta: float = 1e-6
    unit: str = "record"
    relation: str = "replace_one"
    ledger: Any = None


def open_table(path: Path, bounds: TableBounds) -> TableFile | Partitions:
    """Open a table: one file, or many of them."""
    if path.is_dir() or (GLOB & set(str(path)) and not path.exists()):
        return FileParts.of(path)
    return TableFile(path, bounds.types(), bounds.text)


def fit_rows(model: Any, source: TableFile | Partitions) -> Any:
    """Fit a model on a table in parts, or on a file: a long one is read in batches if it can."""
    if isinstance(source, Partitions):
        return model.fit(source)
    source = source.declared(model.bounds.types(), model.bounds.text)
    names = list(model.bounds.types())
    source.require(names)
    may_be_empty = model.relation == Relation.ADD_OR_REMOVE_ONE
    if source.n_rows * len(names) > LONG:  # public, or without effect on releases
        parts = FileParts([source.path]).declared(model.bounds.types(), model.bounds.text)
        if may_be_empty:  # a damaged file is found before the charge
            for _ in parts.map(lambda _, batches: sum(map(len, batches))):
                pass
        try:
            return model.fit(parts)
        except (UnsupportedModeError, MissingBoundsError):  # before any charge
            pass  # it needs all rows at once, or their labels: a refusal would tell of a secret n
    return model.fit(source.read(names, may_be_empty=may_be_empty))


def fit_table(
    source: TableFile | Partitions,
    bounds: TableBounds,
    promise: PrivacyRequest,
    *,
    model: str | None = None,
    target: str | None = None,
    options: Mapping[str, Any] | None = None,
    search: Mapping[str, Any] | None = None,
) -> Any:
    """Train a private model on a table; of a search among values of parameters, the winner."""
    target_column = (bounds := bounds.with_target(target)).target
    assert target_column is not None  # noqa: S101 - or it had been refused
    if model is None:
        is_public = promise.relation == Relation.REPLACE_ONE and promise.unit != Unit.PERSON
        n_rows = source.n_rows if isinstance(source, TableFile) and is_public else None
        model = default_model(bounds, promise, n_rows)
    if model not in MODELS:
        raise InvalidInputError(f"'model' must be one of {', '.join(MODELS)}. Got {model!r}.")
    estimator = make_model(getattr(sfumato, MODELS[model]), promise, bounds, options)
    if is_classifier(estimator) != (target_column.labels is not None):
        kind = "a number" if target_column.labels is None else "a label"
        raise InvalidInputError(
            f"The target {target_column.name!r} is {kind}, which {MODELS[model]} does not predict. "
            "Choose another '--model', or leave it out: the default depends on the target."
        )
    if not search:
        return fit_rows(estimator, source)

    def fit(rows: Any) -> Any:
        if isinstance(rows, Partitions):
            raise UnsupportedModeError("A search reads the table as a whole: name one file.")
        paid = {name: getattr(promise, name) for name in ("epsilon", "delta", "ledger")}
        return sfumato.PrivateSearchCV(estimator, search, **paid).fit(rows).best_estimator_

    wanted = SimpleNamespace(bounds=estimator.bounds, relation=promise.relation, fit=fit)
    return fit_rows(wanted, source)


def default_model(bounds: TableBounds, promise: PrivacyRequest, n_rows: int | None = None) -> str:
    """Choose a model by public facts alone: the target, columns, and rows where given."""
    n_features = len(bounds.features)
    if bounds.target_range is not None:
        return "additive-regressor"
    are_few = n_features <= FEW_COLUMNS
    if n_rows is not None:
        are_few = n_rows * promise.epsilon >= ROWS_PER_COLUMN * n_features
    return "additive" if are_few else "linear"


def predict_table(
    model: Any,
    source: TableFile,
    *,
    probabilities: bool = False,
    keep: tuple[str, ...] = (),
    new_categories: Counter[str] | None = None,
) -> Any:
    """Predict the label of every row of a table; the rows are read batch by batch."""
    check_is_fitted(model)
    if not hasattr(model, "predict") or (probabilities and not hasattr(model, "predict_proba")):
        wanted = "probabilities" if hasattr(model, "predict") else "predictions"
        raise InvalidInputError(f"A {type(model).__name__} makes no {wanted}.")
    bounds = bounds_of(model)
    columns = [column.name for column in bounds.used]
    source.require([*columns, *keep])
    tables, new = [], Counter() if new_categories is None else new_categories
    for batch in source.batches(list(dict.fromkeys([*columns, *keep]))):
        rows, found = batch.select(columns), {name: batch[name] for name in keep}
        new.update(unlisted_cells(bounds, rows))
        with warnings.catch_warnings(action="ignore"):  # said of the whole table
            found["prediction"] = arrow().array(model.predict(rows).tolist())
            chances = model.predict_proba(rows).T if probabilities else ()
        for label, shares in zip(getattr(model, "classes_", ()), chances, strict=False):
            found[f"probability of {label}"] = arrow().array(shares.tolist())
        tables.append(arrow().table(found))
    if not tables:
        raise InvalidInputError(f"The table '{source.path}' has no rows.")
    return arrow().concat_tables(tables)


def fabricate_table(
    source: TableFile | Partitions,
    bounds: TableBounds,
    promise: PrivacyRequest,
    *,
    target: str | None = None,
    n_rows: int | None = None,
    options: Mapping[str, Any] | None = None,
) -> tuple[Any, Any]:
    """Make private rows that behave like those of a table, of the same columns and types."""
    bounds = bounds if target is None else bounds.with_target(target)
    fabricator = make_model(sfumato.Fabricator, promise, bounds, options)
    fit_rows(fabricator, source)
    table = fabricator.fabricate() if n_rows is None else fabricator.sample(n_rows)
    order = list(source.columns) if not isinstance(source.columns, int) else []
    order = [*order, *table.column_names]  # parts of dates are columns of their own
    names = [name for name in dict.fromkeys(order) if name in table.column_names]
    return table.select(names), fabricator


def release_statistic(
    source: TableFile | Partitions,
    bounds: TableBounds,
    promise: PrivacyRequest,
    name: str,
    columns: Sequence[str],
    settings: Mapping[str, Any],
) -> Any:
    """Release a statistic of some columns, such as "release_mean", in groups."""
    function = getattr(sfumato, name)
    takes = signature(function).parameters
    chosen: dict[str, Any] = {"columns": columns}
    if "columns" not in takes:
        chosen = {"column": columns[0]} if columns else {}
        if len(columns) != ("column" in takes):
            number = "one column" if "column" in takes else "groups and no column"
            raise InvalidInputError(f"{name} takes {number}.")
    release = partial(function, bounds=bounds, **chosen, **settings, **vars(promise))
    return fit_rows(SimpleNamespace(bounds=bounds, relation=promise.relation, fit=release), source)


def make_model(
    kind: Any, promise: PrivacyRequest, bounds: Any, options: Mapping[str, Any] | None = None
) -> Any:
    """Build an unfitted estimator; `options` are checked against its parameters."""
    fixed = {**vars(promise), "bounds": bounds}
    known = set(kind().get_params(deep=False)) - set(fixed)
    for name in options or {}:
        if name not in known:
            listed = ", ".join(sorted(known))
            raise InvalidInputError(f"{kind.__name__} has no option {name!r}. It has: {listed}.")
    # Public randomness only, never the noise: equal releases shall give equal models.
    default = {"random_state": 0} if "random_state" in known else {}
    return kind(**{**default, **fixed, **(options or {})})


def table_for(model: Any, path: str | os.PathLike[str], **written: Any) -> TableFile:
    """Open a table as the bounds of a model say: types of columns, and how text is written.

    `written` goes before what the bounds say of the text.
    """
    bounds = bounds_of(model)
    declared = {} if bounds.text is None else bounds.text.to_record()
    text = TextFormat.from_record({**declared, **written}) if written else bounds.text
    return TableFile(path, bounds.types(), text)


def bounds_of(model: Any) -> TableBounds:
    """Return the bounds of a model of tables."""
    bounds = getattr(model, "bounds", None)
    if not isinstance(bounds, TableBounds):
        raise InvalidInputError(f"This {type(model).__name__} was trained on arrays, not a table.")
    return bounds


def target_rows(model: Any, source: TableFile) -> tuple[Any, Any]:
    """Return the rows of a table and its target, as the bounds of a model say."""
    bounds = bounds_of(model)
    if bounds.target is None:
        raise InvalidInputError("Only a model of a table with a target can be measured.")
    source.require([bounds.target.name])
    table = source.read(list(bounds.types()))
    return table, bounds.target.values(table[bounds.target.name])
