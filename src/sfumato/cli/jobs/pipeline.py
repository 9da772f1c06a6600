"""From a table to a private model or private rows: what the command line and services call.

::

    table file --TableBounds, confirmed--> estimator(bounds=...).fit(table) --> model, guarantee

A model made here is an ordinary estimator. Its parameter `bounds` is that of the table, so that it
answers tables after it was saved and loaded.
"""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier
from sklearn.utils.validation import check_is_fitted

from sfumato.cli.jobs.streaming import fit_in_batches, fit_rows, whole_table
from sfumato.exceptions import InvalidInputError
from sfumato.models.base import PrivateEstimator
from sfumato.models.gaussians import is_one_release_enough
from sfumato.models.moments import PrivateGaussianClassifier
from sfumato.privacy.guarantee import Relation, Unit
from sfumato.sums.partitions import Partitions
from sfumato.tables.bounds import PUBLIC_LABELS, Bounds
from sfumato.tables.columns import arrow, arrow_kind, codes_of
from sfumato.tables.encoder import TableEncoder
from sfumato.tables.files import TableFile
from sfumato.tables.schema import TableBounds, Target
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
REGRESSORS = ("additive-regressor", "regressor", "kernel-regressor")  # in order of preference
LONG_TABLE = 2**27  # numbers (1 GiB), from which on reading a table again takes the most time
FOUND_LABELS = "set of labels found in the data"

Array = NDArray[np.float64]
Progress = Callable[[int], None]  # is told the number of rows that were read


@dataclass(frozen=True)
class PrivacyRequest:
    """What is asked of a release: the budget, what it protects, and who pays."""

    epsilon: float
    delta: float = 1e-6
    unit: str = "record"
    relation: str = "replace_one"
    ledger: Any = None


def offered_models() -> dict[str, Any]:
    """Return the classes that `fit_table` can train, by their names on the command line."""
    return {name: public_class(kind) for name, kind in MODELS.items() if is_public(kind)}


def is_public(name: str) -> bool:
    """Return whether Sfumato has an estimator of this name."""
    import sfumato  # here, because classes are looked up when they are asked for

    return hasattr(sfumato, name)


def public_class(name: str) -> Any:
    """Return one of Sfumato's public estimators by its name."""
    import sfumato

    return getattr(sfumato, name)


def fit_table(
    source: TableFile | Partitions,
    bounds: TableBounds,
    promise: PrivacyRequest,
    *,
    model: str | None = None,
    target: str | None = None,
    options: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
    probabilities: bool = False,
) -> Any:
    """Train a private model on a table."""
    bounds.require_confirmed()
    labels = bounds.require_target(target)
    if isinstance(source, TableFile):
        source = source.declared(bounds.types(), bounds.text)
        source.require(list(bounds.types()))
    if model is None:
        is_public = promise.relation == Relation.REPLACE_ONE and promise.unit != Unit.PERSON
        n_rows = source.count_rows() if isinstance(source, TableFile) and is_public else None
        model = default_model(bounds, promise, n_rows)
    if promise.unit == Unit.PERSON and bounds.person is None:
        raise InvalidInputError(
            "Unit 'person' needs the column of IDs: person = \"COLUMN\" in the bounds, or "
            "'--person'."
        )
    estimator = make_model(class_of(model), promise, _listed(source, bounds), options)
    require_task(estimator, labels, probabilities=probabilities)
    in_batches = isinstance(source, TableFile) and promise.unit != Unit.PERSON
    if isinstance(estimator, PrivateGaussianClassifier) and in_batches:
        _fit_in_batches(estimator, source, options or {}, progress)
    else:
        fit_rows(estimator, source, progress)
    return _with_found_labels(estimator, labels)


def default_model(bounds: TableBounds, promise: PrivacyRequest, n_rows: int | None = None) -> str:
    """Choose a model by public facts alone: the target, columns, and rows if public."""
    offered, n_features = offered_models(), len(bounds.features)
    if bounds.target_range is not None:
        return next(name for name in REGRESSORS if name in offered)
    is_public = promise.relation == Relation.REPLACE_ONE and promise.unit != Unit.PERSON
    are_few = n_features <= FEW_COLUMNS
    if is_public and n_rows is not None:
        are_few = n_rows * promise.epsilon >= ROWS_PER_COLUMN * n_features
    return "additive" if are_few and "additive" in offered else "linear"


def require_task(estimator: Any, target: Target, *, probabilities: bool = False) -> None:
    """Refuse, before any charge, a model for another kind of target, or without probabilities."""
    name = type(estimator).__name__
    if is_classifier(estimator) != (target.labels is not None):
        kind = "a number" if target.labels is None else "a label"
        raise InvalidInputError(
            f"The target {target.name!r} is {kind}, which {name} does not predict. Choose another "
            "'--model', or leave it out: the default depends on the target."
        )
    if probabilities and not hasattr(estimator, "predict_proba"):
        raise InvalidInputError(
            f"A {name} gives no probabilities with these settings. Nothing was charged."
        )


def _fit_in_batches(
    model: PrivateGaussianClassifier,
    source: TableFile,
    options: Mapping[str, Any],
    progress: Progress | None,
) -> None:
    """Fit without holding the table."""
    bounds: Any = model.bounds
    shape = source.count_rows(), TableEncoder(bounds).width
    is_person = model.unit == Unit.PERSON
    if "single_release" not in options and not is_person:
        model.single_release = _is_one_pass_enough(model, shape)
    fit_in_batches(
        model,
        lambda: labelled_rows(source, bounds, progress, with_ids=is_person),
        n_rows=shape[0],
        n_features=shape[1],
    )


def labelled_rows(
    source: TableFile,
    bounds: TableBounds,
    progress: Progress | None = None,
    *,
    with_ids: bool = False,
) -> Iterator[tuple[Any, ...]]:
    """Yield encoded rows and labels, and IDs of persons where they are asked for, in batches."""
    encoder, target = TableEncoder(bounds), bounds.require_target(None)
    for batch in source.batches(list(bounds.types())):
        if progress is not None:
            progress(len(batch))
        ids = (batch[bounds.person],) if with_ids and bounds.person is not None else ()
        yield (encoder.transform(batch), target.values(batch[target.name]), *ids)


def all_labelled_rows(source: TableFile, bounds: TableBounds) -> tuple[Array, NDArray[Any]]:
    """Return all encoded rows and labels at once; no rows at all are an error."""
    parts = list(labelled_rows(source, _listed(source, bounds)))
    if not parts:
        raise InvalidInputError(f"The table '{source.path}' has no rows.")
    return np.concatenate([rows for rows, _ in parts]), np.concatenate([y for _, y in parts])


def _listed(source: TableFile | Partitions, bounds: TableBounds) -> TableBounds:
    """Return the bounds with the labels found in the table, if these were declared public."""
    target = bounds.target
    if target is None or target.labels != PUBLIC_LABELS or isinstance(source, Partitions):
        return bounds  # parts need listed labels, and say so
    found: set[Any] = set()
    for batch in source.batches([target.name]):
        column = target.read(batch[target.name]).unique()
        found |= {each for each in column.to_pylist() if each == each} - {None}
    labels = tuple(sorted(Bounds(labels=tuple(found)).labels))
    return replace(bounds, target=replace(target, labels=labels))


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
        raise InvalidInputError(f"A {type(model).__name__} gives no {wanted}.")
    columns, rows_of = _reader_of(model, source)
    source.require([*columns, *keep])
    tables = []
    for batch in source.batches(list(dict.fromkeys([*columns, *keep]))):
        rows = rows_of(batch.select(columns))
        if new_categories is not None:
            new_categories.update(_new_categories(model, batch))
        found = {name: batch[name] for name in keep} | {"prediction": model.predict(rows)}
        if probabilities:
            shares = model.predict_proba(rows).T
            found |= {f"probability of {c}": p for c, p in zip(model.classes_, shares, strict=True)}
        tables.append(arrow().table({name: _column(values) for name, values in found.items()}))
    if not tables:
        raise InvalidInputError(f"The table '{source.path}' has no rows.")
    return arrow().concat_tables(tables)


def transfer_table(
    source: TableFile,
    target: TableFile,
    bounds: TableBounds,
    promise: PrivacyRequest,
    *,
    target_promise: PrivacyRequest | None = None,
    options: Mapping[str, Any] | None = None,
) -> Any:
    """Train a classifier for a table with few labels, helped by a private one with many."""
    bounds.require_confirmed()
    labels = bounds.require_target(None)
    source, target = (each.declared(bounds.types(), bounds.text) for each in (source, target))
    kind = public_class("PrivateTransferClassifier")
    chosen = {**(options or {}), **_of_target(target_promise, options)}
    source.require(list(bounds.types()))
    model = make_model(kind, promise, _listed(source, bounds), chosen)
    model.fit(whole_table(source, model), None, *_few_labels(target, bounds, labels))
    return _with_found_labels(model, labels)


def _of_target(promise: PrivacyRequest | None, options: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the parameters that protect a target; as options they would have no payer."""
    names = ("protect_target", "target_epsilon", "target_delta", "target_ledger")
    named = [name for name in names if name in (options or {})]
    if named:
        raise InvalidInputError(
            f"{named[0]!r} is not an option: ask for a protected target with 'target_promise', on "
            "the command line with '--protect-target'."
        )
    if promise is None:
        return {}
    return dict(zip(names, (True, promise.epsilon, promise.delta, promise.ledger), strict=True))


def fabricate_table(
    source: TableFile | Partitions,
    bounds: TableBounds,
    promise: PrivacyRequest,
    *,
    target: str | None = None,
    n_rows: int | None = None,
    key: str | None = None,
    options: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
) -> tuple[Any, Any]:
    """Make private rows that behave like those of a table, of the same columns and types."""
    bounds.require_confirmed()
    labels = bounds.target if target is None else bounds.require_target(target)
    if key is not None and key in bounds.types():
        raise InvalidInputError(f"The column {key!r} is read by the bounds: leave it out there.")
    if isinstance(source, TableFile):
        source = source.declared(bounds.types(), bounds.text)
        source.require(list(bounds.types()))
    fabricator = make_model(public_class("Fabricator"), promise, _listed(source, bounds), options)
    fit_rows(fabricator, source, progress)
    if labels is not None:
        _with_found_labels(fabricator, labels)
    made = fabricator.fabricate() if n_rows is None else fabricator.sample(n_rows)
    names = list(source.columns) if not isinstance(source.columns, int) else []
    return _as_table(made, labels, names, key), fabricator


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
    usual = {"random_state": 0} if "random_state" in known else {}
    return kind(**{**usual, **fixed, **(options or {})})


def table_for(model: Any, path: str | os.PathLike[str], **written: Any) -> TableFile:
    """Open a table as the bounds of a model say: types of columns, and how text is written.

    `written` goes before what the bounds say of the text.
    """
    bounds = getattr(model, "bounds", None)
    if not isinstance(bounds, TableBounds):
        return TableFile(path, text=TextFormat.from_record(written) if written else None)
    declared = {} if bounds.text is None else bounds.text.to_record()
    text = TextFormat.from_record({**declared, **written}) if written else bounds.text
    return TableFile(path, bounds.types(), text)


# Parts ----------------------------------------------------------------------------------------


def class_of(model: str) -> Any:
    """Return the class of a name of the command line."""
    offered = offered_models()
    if model not in offered:
        raise InvalidInputError(f"'model' must be one of {', '.join(offered)}. Got {model!r}.")
    return offered[model]


def _is_one_pass_enough(model: PrivateGaussianClassifier, shape: tuple[int, int]) -> bool:
    """Return whether a table is too long to read again, and so long that it need not be.

    The number of rows is asked only where it is public.
    """
    if model.relation != Relation.REPLACE_ONE or math.prod(shape) < LONG_TABLE:
        return False
    labels = model.row_bounds.labels
    return model.gaussians_per_class in (None, 1) and is_one_release_enough(
        epsilon=model.epsilon,
        delta=model.delta,
        n_rows=shape[0],
        n_classes=len(labels) if isinstance(labels, tuple) else 2,
        n_features=shape[1],
    )


def _with_found_labels(model: PrivateEstimator, target: Target) -> Any:
    """Write into the guarantee that labels were taken from the table."""
    if target.labels == PUBLIC_LABELS:
        promised = model.guarantee_
        model.guarantee_ = replace(promised, public=(*promised.public, FOUND_LABELS))
    return model


def _few_labels(target: TableFile, bounds: TableBounds, labels: Target) -> tuple[Any, NDArray[Any]]:
    """Return the table, and its labels with -1 where there is none."""
    columns = [column.name for column in bounds.used]
    has_labels = labels.name in target.columns
    table = target.read([*columns, *([labels.name] if has_labels else [])])
    unknown = -1 if arrow_kind(labels.type) else "-1"
    if not has_labels:
        return table, np.full(len(table), unknown)
    column = table[labels.name].cast(labels.type).fill_null(unknown)
    return table, np.asarray(column)


def _reader_of(model: Any, source: TableFile) -> tuple[list[str], Callable[[Any], Any]]:
    """Return the columns that a model reads, and what it is given of them."""
    if isinstance(getattr(model, "bounds", None), TableBounds):
        return [column.name for column in model.bounds.used], lambda batch: batch
    columns = [str(name) for name in getattr(model, "feature_names_in_", source.columns)]
    if len(columns) != model.n_features_in_:
        raise InvalidInputError(
            f"The model was trained on {model.n_features_in_} unnamed columns, the table "
            f"'{source.path}' has {len(columns)}."
        )
    return columns, lambda batch: np.column_stack(
        [np.asarray(batch[name].cast("float64")) for name in columns]
    )


def _new_categories(model: Any, batch: Any) -> dict[str, int]:
    """Count the cells of each column that are none of its declared categories."""
    bounds = getattr(model, "bounds", None)
    if not isinstance(bounds, TableBounds):
        return {}
    counts = {
        column.name: int((codes_of(batch[column.name], column.categories) < 0).sum())
        - batch[column.name].null_count
        for column in bounds.used
        if column.categories is not None
    }
    return {name: count for name, count in counts.items() if count}


def _column(values: Any) -> Any:
    return arrow().array(values.tolist()) if isinstance(values, np.ndarray) else values


def _as_table(made: Any, target: Target | None, order: list[str], key: str | None) -> Any:
    """Return rows and labels as one table with its columns in the order of the source."""
    table, labels = (made, None) if target is None else made
    if key is not None:
        table = table.add_column(0, key, arrow().array(range(1, len(table) + 1)))
    if target is not None and labels is not None:
        column = arrow().array(labels.tolist()).cast(target.type)
        table = table.append_column(target.name, column)
    order = [*order, *table.column_names]  # parts of dates are columns of their own
    return table.select([name for name in dict.fromkeys(order) if name in table.column_names])
