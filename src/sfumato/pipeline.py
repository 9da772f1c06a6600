"""From a table to a private model or private rows: what the command line and services call.

::

    table file --TableBounds, confirmed--> rows of a public scale --estimator--> model, guarantee

A model made here is an ordinary estimator. It carries the public encoding of the table as its
attribute `encoding_`, so that it answers tables after it was saved and loaded.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from sfumato.bounds import PUBLIC_LABELS, Bounds
from sfumato.exceptions import InvalidInputError
from sfumato.guarantee import Relation
from sfumato.moments import PrivateGaussianClassifier
from sfumato.moments.record_engine import is_one_release_enough
from sfumato.private import PrivateEstimator
from sfumato.streaming import fit_in_batches
from sfumato.tables.bounds_file import TableBounds, Target
from sfumato.tables.columns import arrow, arrow_kind, codes_of, read_as
from sfumato.tables.encoding import TableEncoding
from sfumato.tables.files import TableFile

__all__ = [
    "MODELS",
    "Promise",
    "all_labelled_rows",
    "class_of",
    "fabricate_table",
    "fit_table",
    "is_public",
    "labelled_rows",
    "labels_of",
    "make_model",
    "offered_models",
    "predict_table",
    "public_class",
    "transfer_table",
    "types_read_by",
]

# The names of the command line, and the public classes they stand for.
MODELS = {
    "gaussian": "PrivateGaussianClassifier",
    "hull": "PrivateAffineHullClassifier",
    "kernel": "PrivateKernelClassifier",
    "large-margin": "PrivateLargeMarginGaussianClassifier",
    "linear": "PrivateLinearClassifier",
}
LONG_TABLE = 2**27  # numbers (1 GiB), from which on reading a table again takes the most time
FOUND_LABELS = "set of labels found in the data"
PUBLIC_TABLE = "names, types, ranges and categories of the columns"

Array = NDArray[np.float64]
Progress = Callable[[int], None]  # is told the number of rows that were read


@dataclass(frozen=True)
class Promise:
    """What is asked of a release: the budget, what it protects, and who pays."""

    epsilon: float
    delta: float = 1e-6
    unit: str = "record"
    relation: str = "replace_one"
    ledger: Any = None


def offered_models() -> dict[str, Any]:
    """Give the classes that `fit_table` can train, by their names on the command line."""
    return {name: public_class(kind) for name, kind in MODELS.items() if is_public(kind)}


def is_public(name: str) -> bool:
    """Tell whether Sfumato has an estimator of this name."""
    import sfumato  # here, because classes are looked up when they are asked for

    return hasattr(sfumato, name)


def public_class(name: str) -> Any:
    """Give one of Sfumato's public estimators by its name."""
    import sfumato

    return getattr(sfumato, name)


def fit_table(
    source: TableFile,
    bounds: TableBounds,
    promise: Promise,
    *,
    model: str = "gaussian",
    target: str | None = None,
    options: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
) -> Any:
    """Train a private classifier on a table.

    Parameters
    ----------
    source : TableFile
        The rows.
    bounds : TableBounds
        Confirmed public bounds, with the target.
    promise : Promise
        Budget, unit, relation and ledger.
    model : str, default="gaussian"
        One of `offered_models`.
    target : str, optional
        The column of labels; must be the one of the bounds.
    options : mapping, optional
        Further parameters of the estimator. The model gaussian takes ``single_release=True`` by
        itself where the number of rows is public and reading them again would cost the most.
    progress : callable, optional
        Called with the number of rows of each batch that was read.
    """
    bounds.require_confirmed()
    labels = bounds.require_target(target)
    source = source.declared(bounds.types())
    source.require([column.name for column in bounds.used] + [labels.name])
    encoding = bounds.encoding()
    box = encoding.bounds(labels.labels, promise.unit)
    estimator = make_model(class_of(model), promise, box, options)
    if isinstance(estimator, PrivateGaussianClassifier):
        _fit_in_batches(estimator, source, encoding, labels, options or {}, progress)
    else:
        may_be_empty = promise.relation == Relation.ADD_OR_REMOVE_ONE
        estimator.fit(
            *all_labelled_rows(source, encoding, labels, progress, may_be_empty=may_be_empty)
        )
    return _with_table(estimator, encoding, labels)


def _fit_in_batches(
    model: PrivateGaussianClassifier,
    source: TableFile,
    encoding: TableEncoding,
    target: Target,
    options: Mapping[str, Any],
    progress: Progress | None,
) -> None:
    """Fit without holding the table; labels that were declared public are looked for before."""
    listed = replace(target, labels=tuple(_label_set(source, target).tolist()))
    model.bounds = encoding.bounds(listed.labels, model.unit)
    shape = source.count_rows(), encoding.n_numbers
    if "single_release" not in options:
        model.single_release = _is_one_pass_enough(model, shape)
    fit_in_batches(
        model,
        lambda: labelled_rows(source, encoding, listed, progress),
        n_rows=shape[0],
        n_features=shape[1],
    )
    if target.labels == PUBLIC_LABELS:
        promised = model.guarantee_
        model.guarantee_ = replace(promised, public=(*promised.public, FOUND_LABELS))


def labelled_rows(
    source: TableFile, encoding: TableEncoding, target: Target, progress: Progress | None = None
) -> Iterator[tuple[Array, NDArray[Any]]]:
    """Give encoded rows and labels, batch by batch."""
    known = _label_set(source, target)
    for batch in source.batches([*encoding.form.columns, target.name]):
        if progress is not None:
            progress(len(batch))
        yield encoding.encode(batch), labels_of(batch[target.name], known)


def all_labelled_rows(
    source: TableFile,
    encoding: TableEncoding,
    target: Target,
    progress: Progress | None = None,
    *,
    may_be_empty: bool = False,
) -> tuple[Array, NDArray[Any]]:
    """Give all encoded rows and labels at once; no rows at all are an error, unless they may be."""
    parts = list(labelled_rows(source, encoding, target, progress))
    if not parts and may_be_empty:
        return np.empty((0, encoding.n_numbers)), _label_set(source, target)[:0]
    return _whole([rows for rows, _ in parts], source), np.concatenate([y for _, y in parts])


def labels_of(column: Any, known: NDArray[Any]) -> NDArray[Any]:
    """Give the labels of a column, each compared with the public ones by itself.

    A cell that is none of them, missing or not, becomes the first: one odd label changes neither
    the type of the others nor what they are.
    """
    codes = codes_of(column, known.tolist())
    return np.asarray(known[np.maximum(codes, 0)])  # [Z2]


def _label_set(source: TableFile, target: Target) -> NDArray[Any]:
    """Give the public labels in order; those found in the table, if they were declared public."""
    labels = target.labels
    if labels == PUBLIC_LABELS:
        found: set[Any] = set()
        for batch in source.batches([target.name]):
            column = read_as(batch[target.name], target.type)
            found |= {each for each in column.unique().to_pylist() if each == each} - {None}
        labels = tuple(found)
    return np.asarray(sorted(Bounds(labels=labels).labels))  # told apart also as doubles


def predict_table(
    model: Any, source: TableFile, *, probabilities: bool = False, keep: tuple[str, ...] = ()
) -> Any:
    """Predict the label of every row of a table; the rows are read batch by batch.

    Parameters
    ----------
    model : estimator
        A classifier, with or without the encoding of a table.
    source : TableFile
        The rows; a column of labels is not needed.
    probabilities : bool, default=False
        Add one column a label with its probability.
    keep : tuple of str
        Columns to copy beside the predictions.

    Returns
    -------
    pyarrow.Table
        A column "prediction", and what was asked for besides.
    """
    check_is_fitted(model)
    if not hasattr(model, "predict") or (probabilities and not hasattr(model, "predict_proba")):
        wanted = "probabilities" if hasattr(model, "predict") else "predictions"
        raise InvalidInputError(f"A {type(model).__name__} gives no {wanted}.")
    columns, encode = _reader_of(model, source)
    source.require([*columns, *keep])
    tables = []
    for batch in source.batches(list(dict.fromkeys([*columns, *keep]))):
        rows = encode(batch.select(columns))
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
    promise: Promise,
    *,
    target_promise: Promise | None = None,
    options: Mapping[str, Any] | None = None,
) -> Any:
    """Train a classifier for a table with few labels, helped by a private one with many.

    Parameters
    ----------
    source, target : TableFile
        Tables of the same columns. A missing label of the target, or a target without the column
        of labels, is a row without label.
    bounds, promise, options
        As in `fit_table`; the promise is for the rows of the source.
    target_promise : Promise, optional
        What is asked for the rows of the target, always of unit "record" and the source's
        relation; without it they are not protected.
    """
    bounds.require_confirmed()
    labels = bounds.require_target(None)
    source, target = (each.declared(bounds.types()) for each in (source, target))
    encoding = bounds.encoding()
    kind = public_class("PrivateTransferClassifier")
    chosen = {**(options or {}), **_of_target(target_promise, options)}
    model = make_model(kind, promise, encoding.bounds(labels.labels, promise.unit), chosen)
    source.require([*encoding.form.columns, labels.name])
    may_be_empty = promise.relation == Relation.ADD_OR_REMOVE_ONE
    rows, y = all_labelled_rows(source, encoding, labels, may_be_empty=may_be_empty)
    model.fit(rows, y, *_few_labels(target, encoding, labels))
    return _with_table(model, encoding, labels)


def _of_target(promise: Promise | None, options: Mapping[str, Any] | None) -> dict[str, Any]:
    """Give the parameters that protect a target; as options they would have no payer."""
    names = ("protect_target", "target_epsilon", "target_delta", "target_ledger")
    named = [name for name in names if name in (options or {})]
    if named:
        raise InvalidInputError(
            f"{named[0]!r} is no option: ask for a protected target with 'target_promise', on the "
            "command line with '--protect-target'."
        )
    if promise is None:
        return {}
    return dict(zip(names, (True, promise.epsilon, promise.delta, promise.ledger), strict=True))


def fabricate_table(
    source: TableFile,
    bounds: TableBounds,
    promise: Promise,
    *,
    target: str | None = None,
    n_rows: int | None = None,
    options: Mapping[str, Any] | None = None,
) -> tuple[Any, Any]:
    """Make private rows that behave like those of a table, of the same columns and types.

    Parameters
    ----------
    source, bounds, promise, target, options
        As in `fit_table`; without a target in the bounds, rows without labels.
    n_rows : int, optional
        Rows to draw; by default as many as were seen.

    Returns
    -------
    table : pyarrow.Table
        The fabricated rows.
    fabricator : Fabricator
        What made them, with its guarantee.
    """
    bounds.require_confirmed()
    labels = bounds.target if target is None else bounds.require_target(target)
    source = source.declared(bounds.types())
    encoding = bounds.encoding()
    known = None if labels is None else labels.labels
    fabricator = make_model(
        public_class("Fabricator"), promise, encoding.bounds(known, promise.unit), options
    )
    may_be_empty = promise.relation == Relation.ADD_OR_REMOVE_ONE
    if labels is None:
        table = source.read(encoding.form.columns, may_be_empty=may_be_empty)
        fabricator.fit(encoding.encode(table))
    else:
        fabricator.fit(*all_labelled_rows(source, encoding, labels, may_be_empty=may_be_empty))
    _with_table(fabricator, encoding, labels)
    made = fabricator.fabricate() if n_rows is None else fabricator.sample(n_rows)
    return _as_table(made, encoding, labels, list(source.columns)), fabricator


def make_model(
    kind: Any, promise: Promise, bounds: Any, options: Mapping[str, Any] | None = None
) -> Any:
    """Build an unfitted estimator; `options` are checked against its parameters."""
    if "entry_bound" in (options or {}):
        raise InvalidInputError(
            "'entry_bound' is no option for a table: its columns are scaled to their ranges, so "
            "one number would mean another change in each of them. Without it, every change of an "
            "entry within its range is protected."
        )
    fixed = {**vars(promise), "bounds": bounds}
    known = set(kind().get_params(deep=False)) - set(fixed)
    for name in options or {}:
        if name not in known:
            listed = ", ".join(sorted(known))
            raise InvalidInputError(f"{kind.__name__} has no option {name!r}. It has: {listed}.")
    # Public randomness only, never the noise: equal releases shall give equal models.
    usual = {"random_state": 0} if "random_state" in known else {}
    return kind(**{**usual, **fixed, **(options or {})})


def types_read_by(model: Any) -> dict[str, str]:
    """Give the declared types of the columns that a model of a table reads, and of its target."""
    encoding = getattr(model, "encoding_", None)
    if encoding is None:
        return {}
    form, target = encoding["form"], encoding["target"]
    types = dict(zip(form["columns"], form["types"], strict=True))
    return types if target is None else {**types, target["name"]: target["type"]}


# Parts ----------------------------------------------------------------------------------------


def class_of(model: str) -> Any:
    """Give the class of a name of the command line."""
    offered = offered_models()
    if model not in offered:
        raise InvalidInputError(f"'model' must be one of {', '.join(offered)}. Got {model!r}.")
    return offered[model]


def _is_one_pass_enough(model: PrivateGaussianClassifier, shape: tuple[int, int]) -> bool:
    """Tell whether a table is too long to read again, and so long that it need not be.

    The number of rows is asked only where it is public.
    """
    if model.relation != Relation.REPLACE_ONE or math.prod(shape) < LONG_TABLE:
        return False
    labels = getattr(model.bounds, "labels", None)
    return model.gaussians_per_class in (None, 1) and is_one_release_enough(
        epsilon=model.epsilon,
        delta=model.delta,
        n_rows=shape[0],
        n_classes=len(labels) if isinstance(labels, tuple) else 2,
        n_features=shape[1],
    )


def _with_table(model: PrivateEstimator, encoding: TableEncoding, target: Target | None) -> Any:
    """Write the public encoding into the model, and into what its guarantee takes for public."""
    about = None if target is None else {"name": target.name, "type": target.type}
    model.encoding_ = {**encoding.to_dict(), "target": about}
    promised = model.guarantee_
    model.guarantee_ = replace(promised, public=(*promised.public, PUBLIC_TABLE))
    return model


def _few_labels(
    target: TableFile, encoding: TableEncoding, labels: Target
) -> tuple[Array, NDArray[Any]]:
    """Give encoded rows, and labels with -1 where there is none."""
    has_labels = labels.name in target.columns
    table = target.read([*encoding.form.columns, *([labels.name] if has_labels else [])])
    unknown = -1 if arrow_kind(labels.type) else "-1"
    if not has_labels:
        return encoding.encode(table), np.full(len(table), unknown)
    column = table[labels.name].cast(labels.type).fill_null(unknown)
    return encoding.encode(table), np.asarray(column)


def _whole(parts: list[Array], source: TableFile) -> Array:
    if not parts:
        raise InvalidInputError(f"The table '{source.path}' has no rows.")
    return np.concatenate(parts)


def _reader_of(model: Any, source: TableFile) -> tuple[list[str], Callable[[Any], Array]]:
    """Give the columns that a model reads, and how they become numbers."""
    if hasattr(model, "encoding_"):
        encoding = TableEncoding.from_dict(model.encoding_)
        return list(encoding.form.columns), encoding.encode
    columns = [str(name) for name in getattr(model, "feature_names_in_", source.columns)]
    if len(columns) != model.n_features_in_:
        raise InvalidInputError(
            f"The model was trained on {model.n_features_in_} unnamed columns, the table "
            f"'{source.path}' has {len(columns)}."
        )
    return columns, lambda batch: np.column_stack(
        [np.asarray(batch[name].cast("float64")) for name in columns]
    )


def _column(values: Any) -> Any:
    return arrow().array(values.tolist()) if isinstance(values, np.ndarray) else values


def _as_table(made: Any, encoding: TableEncoding, target: Target | None, order: list[str]) -> Any:
    """Decode rows and labels into one table with its columns in the order of the source."""
    rows, labels = (made, None) if target is None else made
    table = encoding.decode(rows)
    if target is not None and labels is not None:
        column = arrow().array(labels.tolist()).cast(target.type)
        table = table.append_column(target.name, column)
    return table.select([name for name in order if name in table.column_names])
