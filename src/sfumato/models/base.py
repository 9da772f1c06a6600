"""What private estimators share, in the order of a fit.

Reader             turns a batch of records into rows, class codes and IDs; public, so it is
                   sent to where rows are
PrivateEstimator   `_begin` checks everything and returns records and budget
PrivateClassifier  predictions from scores
"""

from __future__ import annotations

import functools
import math
import sys
import warnings
import weakref
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.pipeline import Pipeline
from sklearn.utils import Tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from sfumato.core.arrays import is_foreign_array, to_host, to_numpy
from sfumato.core.constraints import (
    COMMON_PARAMETERS,
    Form,
    check_parameters,
    known_bounds,
    labels,
    real,
    refuse,
)
from sfumato.core.documents import document
from sfumato.exceptions import (
    EngineError,
    InvalidInputError,
    MissingBoundsError,
    UnlistedCategoryWarning,
    UnsupportedModeError,
)
from sfumato.models.budget import Budget
from sfumato.models.scores import CALLERS, range_of_target, say_once, warn_on_score
from sfumato.privacy.guarantee import Relation, Unit
from sfumato.sums.grid import MAX_ROWS, MAX_ROWS_SECRET_N
from sfumato.sums.maps import IntoUnitBall
from sfumato.sums.partitions import PartitionedRecords
from sfumato.sums.persons import PersonUnit
from sfumato.sums.records import ArrayRecords, Records, RemoteRecords
from sfumato.sums.table_parts import all_missing_record, partitions_of
from sfumato.tables.bounds import PUBLIC_LABELS, Bounds, label_places
from sfumato.tables.cells import (
    as_numbers,
    as_rows,
    checked_column,
    checked_rows,
    checked_tensor,
    column_names,
    columns_of,
    is_out_of_core,
    is_table,
)
from sfumato.tables.columns import as_column, codes_of
from sfumato.tables.encoder import TableEncoder
from sfumato.tables.schema import TableBounds, bounds_from

if TYPE_CHECKING:
    from sfumato.audit import AuditReport

Array = NDArray[np.float64]

SCORED_ROWS = 4096  # rows that are scored together
ATTRIBUTES = {  # of many estimators, in their docstrings
    "$classes": "classes_ : ndarray of shape (n_classes,)\n        The public label set, sorted.",
    "$machine": """n_fourier : int, default=1024
        Public random Fourier features, used where exact features of the kernel would be more
        than 2048 (in more than two dimensions, mostly). The machine is then learned and
        released in the space of these features, where every bound is exact.
    tolerance : float, default=0.01
        Share of the sensitivity that is paid for the solver, which stops at a certified gap; at
        least 0.001.
    random_state : int, RandomState or None, default=0
        For the public frequencies only.""",
    "$guarantee": "guarantee_ : Guarantee\n        The privacy guarantee of the fit.",
}
NO_LABELS = np.zeros(1, dtype=int)  # `classes_` of records without labels: one class


# Records ----------------------------------------------------------------------------------------


def unlisted_cells(bounds: TableBounds, table: Any) -> Counter[str]:
    """Count cells that hold no category of their column, of a table that is public."""
    listed = {each.name: each.categories for each in bounds.used if each.categories is not None}
    found: Counter[str] = Counter()
    for name, cells in columns_of(table, list(listed)).items():
        column = as_column(cells)
        found[name] = int((codes_of(column, listed[name]) < 0).sum()) - column.null_count
    return +found


@dataclass(frozen=True, eq=False)
class Reader:
    """Turns a batch into rows, class codes and IDs of persons, each record alone; all is public.

    A batch is a table, or a tuple of an array or table with its labels or targets and its IDs.

    scaled: Whether columns are scaled to their public ranges.
    as_cells: One number per column, NaN for missing, instead of encoded rows.
    classes: The label set, where there are labels.
    target: Ends of the range of a numeric target, and origin and unit in which it is appended.
    y, groups: Names of the columns of labels and IDs, in tables that are not in memory.
    labels: The label set as it was declared.
    """

    bounds: Bounds | TableBounds
    person: PersonUnit | None = None
    scaled: bool = True
    as_cells: bool = False
    classes: NDArray[Any] | None = None
    target: tuple[float, float, float, float] | None = None
    y: str | None = None
    groups: str | None = None
    labels: Any = None

    def __call__(self, batch: Any) -> tuple[Any, ...]:
        """Return rows and class codes, and IDs where persons are the unit."""
        X, y, groups = self.split(batch)
        rows = self.rows(X)
        if self.target is not None:
            low, high, origin, unit = self.target
            targets = as_numbers(np.asarray(y))
            scaled = (np.clip(targets, low, high) - origin) / unit
            scaled[~np.isfinite(targets)] = np.nan
            rows = np.column_stack([rows, scaled])
        codes = np.zeros(int(rows.shape[0]), dtype=np.intp)
        if self.classes is not None:
            codes = label_places(self.classes, y)  # without a label, -1: its term is zero
        return (rows, codes) if self.person is None else (rows, codes, groups)

    def split(self, batch: Any) -> tuple[Any, Any, Any]:
        """Return records, labels and IDs; columns that are named are looked up in a table."""
        X, y, groups = batch if isinstance(batch, tuple) else (batch, self.y, self.groups)
        if isinstance(X, np.ndarray) or not is_table(X):
            return X, y, groups
        left_out = [name for name in (y, groups) if isinstance(name, str)]
        if isinstance(self.bounds, TableBounds):
            is_column = y is not None and not isinstance(y, str)
            if (self.classes is not None or self.target is not None) and not is_column:
                y = self.bounds.target_of(X, y)
            if groups is None and self.person is not None:
                groups = self.bounds.person
        y, groups = (columns_of(X, [c])[c] if isinstance(c, str) else c for c in (y, groups))
        if left_out and not isinstance(self.bounds, TableBounds):
            kept = [name for name in column_names(X) if name not in left_out]
            X = X.select(kept) if hasattr(X, "select") else X[kept]
        return X, y, groups

    def ids_of(self, batch: Any) -> Any:
        """Return the IDs of persons of a batch."""
        return self.split(batch)[2]

    def rows(self, X: Any) -> Any:
        """Return records as rows: cells, or the public encoding; no value raises."""
        if is_foreign_array(X):  # a tensor that stays where it is
            return X
        if not self.as_cells:
            return self.encoder.transform(X)
        if isinstance(self.bounds, TableBounds) and is_table(X):
            return self.bounds.cells(X)
        return as_rows(X, self.n_columns)

    @cached_property
    def encoder(self) -> TableEncoder:
        """The public encoding of records."""
        return TableEncoder(self.bounds, scaled=self.scaled)

    @property
    def n_columns(self) -> int | None:
        """Numbers of a record in an array, where the bounds tell."""
        if isinstance(self.bounds, Bounds):
            return self.bounds.n_features
        return len(self.bounds.features) if self.as_cells else self.encoder.width


# Estimators -------------------------------------------------------------------------------------


class EncodedRows(np.ndarray[Any, Any]):
    """Rows that `table_rows` has made of a table; other arrays may hold columns in any order."""


# Estimators with the bounds of a table that were fitted on encoded rows: they may be asked so.
FITTED_ON_ARRAYS: weakref.WeakSet[Any] = weakref.WeakSet()


@dataclass(kw_only=True, eq=False, repr=False)
class PrivateEstimator(BaseEstimator):
    """Base of private estimators: dataclasses whose fields are their parameters.

    A subclass adds its parameters as fields, says in `parameters` and `learned` what they and the
    fitted attributes must be (the same tables check stored models), and writes `fit` as the
    algorithm: ``records, budget = self._begin(X, y, groups)``; declare releases; charge; draw.
    In its docstring, ``$shared`` stands for the parameters below; where `fit` or another method
    has no docstring, that of its base holds.

    Parameters
    ----------
    epsilon, delta : float, default=1.0, 1e-6
        The budget of the whole fit; ``epsilon=inf`` means no noise and no privacy.
    unit : {"record", "person"}, optional
        What is protected: one row, or all rows of a person. By default a person where the bounds
        name their column, else a row.
    relation : {"replace_one", "add_or_remove_one"}, default="replace_one"
        Which data sets are neighbours; the number of rows is public under the first only.
    bounds : Bounds or TableBounds
        Public bounds of the records; required, never learned from data.
    ledger : DatasetBudget, optional
        The budget that pays; see `sfumato.Ledger`.
    """

    epsilon: float = 1.0
    delta: float = 1e-6
    unit: str | None = None
    relation: str = "replace_one"
    bounds: Bounds | TableBounds | None = None
    ledger: Any = None

    offered_units: ClassVar[tuple[Unit, ...]] = (Unit.RECORD, Unit.PERSON)
    offered_relations: ClassVar[tuple[Relation, ...]] = tuple(Relation)
    stored_form: ClassVar[Form] = {}
    parameters: ClassVar[Form] = {}
    learned: ClassVar[Form] = {}
    reads_cells: ClassVar[bool] = False  # cells in the units of their columns, not encoded rows
    # Whether columns of `Bounds` with a range each are scaled to it, and numbers of a table are.
    scales_columns: ClassVar[bool] = True
    scales_tables: ClassVar[bool] = True
    in_unit_ball: ClassVar[bool] = True  # whether rows are moved into the unit ball
    groups_rows: ClassVar[bool] = False  # whether rows of a person are bounded together
    needs_memory: ClassVar[bool] = False  # whether rows that are not in memory are refused
    max_secret_rows: ClassVar[int] = MAX_ROWS_SECRET_N  # more are refused where n is secret
    answers_alone: ClassVar[bool] = False  # predictions of a row have the same bits in any company
    has_labels: ClassVar[bool | None] = False  # None: where some are given

    def __init_subclass__(cls, **options: Any) -> None:
        """Document shared parameters, guard `fit`, and let `score` say what it is."""
        super().__init_subclass__(**options)
        given = {
            "epsilon": real(above=0.0, most=math.inf),
            "delta": real(least=0.0, below=1.0),
            **{name: check for name, check in COMMON_PARAMETERS.items() if hasattr(cls, name)},
            **cls.parameters,
        }
        cls.stored_form = {"bounds": known_bounds, **given, **cls.learned}
        if "fit" in vars(cls):
            cls.fit = _guard(vars(cls)["fit"])  # type: ignore[method-assign]
        shared = (PrivateEstimator.__doc__ or "").partition("----------\n")[2].strip()
        document(cls, {"$shared": shared, **ATTRIBUTES})
        score = getattr(cls, "score", None)
        if score is not None and not hasattr(score, "says_once"):
            cls.score = warn_on_score(score)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        # A missing or infinite number is replaced by a public default, row by row: an error
        # would tell that such a row is there.
        tags.input_tags.allow_nan = True
        tags.non_deterministic = True
        return tags

    def _repr_html_inner(self) -> str:  # scikit-learn does not know our section
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Unknown section Privacy")
            return str(super()._repr_html_inner())

    # Public facts -------------------------------------------------------------------------------

    @property
    def protected_unit(self) -> Unit:
        """What is protected: `unit`, or a person where none is given and the bounds name one."""
        named = Unit.RECORD if getattr(self.bounds, "person", None) is None else Unit.PERSON
        return named if self.unit is None else Unit(self.unit)

    @property
    def _n_is_secret(self) -> bool:
        is_person = self.protected_unit is Unit.PERSON
        return self.relation == Relation.ADD_OR_REMOVE_ONE or is_person

    @property
    def record_bounds(self) -> Bounds | TableBounds | None:
        """Public bounds of what is read of a record: those given."""
        return self.bounds

    @property
    def _reader(self) -> Reader:
        """How records are read by the public bounds; labels and targets are left to `_begin`."""
        bounds = self.record_bounds
        if not isinstance(bounds, Bounds | TableBounds):
            raise MissingBoundsError(
                f"{type(self).__name__} needs public bounds, which are never learned from data: "
                "bounds=Bounds(norm=...), Bounds(lower=..., upper=...) or a TableBounds."
            )
        if isinstance(bounds, TableBounds):
            bounds.require_confirmed()
        person = None
        if self.protected_unit is Unit.PERSON:
            if bounds.person_rows is None:
                raise MissingBoundsError(
                    "Unit 'person' needs the largest number of rows used per person, which is "
                    "public: Bounds(..., person_rows=8), or 'person' and 'person_rows' in the "
                    "bounds of a table."
                )
            person = PersonUnit(bounds.person_rows, bounds.per_person)
        scaled = self.scales_columns if isinstance(bounds, Bounds) else self.scales_tables
        labels = getattr(getattr(bounds, "target", bounds), "labels", None)
        return Reader(bounds, person, scaled, self.reads_cells, labels=labels)

    @property
    def row_bounds(self) -> Bounds:
        """Public bounds of the rows that records become: see `TableEncoder`."""
        return self._reader.encoder.row_bounds()

    @property
    def array_bounds(self) -> Bounds:
        """Public bounds of the arrays that `fit` takes: those given, or of a table's rows."""
        return self.bounds if isinstance(self.bounds, Bounds) else self.row_bounds

    def table_rows(self, table: Any) -> Array:
        """Return the records of a table as `fit` takes them in an array.

        Parameters
        ----------
        table : DataFrame or Table
            Of pandas, polars or Arrow, with the columns of the bounds.

        Returns
        -------
        ndarray of shape (n_samples, n_features)
            The rows.
        """
        rows: Array = self._reader.rows(table)
        return rows.view(EncodedRows)

    def _public_facts(self, reader: Reader | None = None) -> tuple[str, ...]:
        reader = reader or self._reader
        facts = ["bounds", "parameters of the estimator", "number of features"]
        if self.relation == Relation.REPLACE_ONE:
            facts.append("number of rows" if reader.person is None else "number of persons")
        else:  # sums are exact for this many rows, and more are refused
            facts.append(f"at most 2**{self.max_secret_rows.bit_length() - 1} rows")
        if reader.person is not None:
            person = reader.person
            facts.append(f"at most {person.rows} rows per person, added up as their {person.way}")
        if isinstance(self.bounds, TableBounds):
            by, seal = self.bounds.confirmed_by, self.bounds.confirmed_seal
            sealed = f", confirmed by {by}, seal {seal[:16]}" if by and seal else ""
            facts.append(f"names, types, ranges and categories of the columns{sealed}")
            if self.bounds.person is not None and reader.person is None:
                facts.append(f"rows of one {self.bounds.person!r} are protected one by one")
        if reader.labels is not None:
            found = reader.labels == PUBLIC_LABELS
            facts.append("set of labels found in the data" if found else "set of labels")
        return tuple(facts)

    # Fit ----------------------------------------------------------------------------------------

    def fit(self, *args: Any, **options: Any) -> Any:
        """Learn from records: everything is checked, then charged, then drawn.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), table, path or Federation
            Rows. The bounds of a table may name its columns of labels or targets and of IDs. An
            estimator that cannot take some of these says so before anything is charged.
        y : array-like of shape (n_samples,), optional
            Labels or targets, where the estimator takes any.
        groups : array-like of shape (n_samples,), optional
            IDs of persons, for unit "person"; rows without one are dropped.

        Returns
        -------
        Self
            The fitted estimator.
        """
        raise NotImplementedError

    def _check_request(self) -> Reader:
        """Check what is asked for, before any row is looked at; return how records are read."""
        for value, kind, offered in (
            (self.protected_unit, Unit, self.offered_units),
            (self.relation, Relation, self.offered_relations),
        ):
            if kind(value) not in offered:
                name, listed = kind.__name__.lower(), ", ".join(repr(str(each)) for each in offered)
                raise UnsupportedModeError(
                    f"{type(self).__name__} offers {name} {listed}. Got {str(value)!r} instead. "
                    "For persons with at most k rows see sfumato.privacy.for_persons"
                    "(model.guarantee_, k), for single numbers of a row sfumato.papers.kahm."
                )
        reader = self._reader
        check_parameters(self, self.stored_form, set(self.get_params(deep=False)) - {"bounds"})
        return reader

    def _begin(
        self,
        X: Any,
        y: Any = None,
        groups: Any = None,
        *,
        target: tuple[float, float, float, float] | None = None,
    ) -> tuple[Records, Budget]:
        """Return the records and an empty budget; check everything, charge nothing.

        Records are rows in the unit ball (or cells, or rows as they are: see the class
        attributes), a numeric target appended, with class codes. `classes_` is noted.
        """
        self.__dict__.pop("guarantee_", None)  # of an earlier fit: this one may fail
        reader = replace(self._check_request(), target=target)
        out_of_core = is_out_of_core(X)
        if self.needs_memory and out_of_core:
            raise UnsupportedModeError(
                f"{type(self).__name__} needs all rows in memory with these settings: read the "
                "table first and give it as a data frame or an array."
            )
        is_person = reader.person is not None
        if isinstance(X, RemoteRecords):  # rows are read by those who hold them
            if (X.relation, X.person) != (Relation(self.relation), reader.person):
                raise InvalidInputError(
                    f"The records are for a different unit or relation from {type(self).__name__}."
                )
            reader, _ = self._with_classes(reader)
            width = self._note_features(reader, all_missing_record(X.columns))
            records = X.read_by(reader, width)
        elif out_of_core:
            parts, y, groups = partitions_of(X, y, groups)
            reader, _ = self._with_classes(replace(reader, y=y, groups=groups))
            if isinstance(self.bounds, TableBounds):
                parts = parts.declared(self.bounds.types(), self.bounds.text)
            else:
                parts = parts.undeclared()
            width = self._note_features(reader, all_missing_record(parts.columns, parts.schema))
            if is_person:
                parts = parts.by_person(reader.ids_of)
            records = PartitionedRecords(
                parts, reader, width=width, relation=self.relation, person=reader.person
            )
        else:
            records, reader = self._in_memory(reader, X, y, groups)
        if self.in_unit_ball and not self.reads_cells and target is None:
            records = records.mapped(IntoUnitBall(reader.encoder.row_bounds(), records.width))
        elif not self.reads_cells:
            self.array_bounds.box(self.n_features_in_)  # refused before anything is charged
        number = records.public_persons if is_person else records.public_rows
        if number is not None and self.delta > 1 / number:  # of a public number only
            one = "person" if is_person else "row"
            warnings.warn(
                f"delta={self.delta:g} is above 1/number of {one}s: publishing one {one} at random "
                "would already be allowed. Choose a smaller delta.",
                stacklevel=4,
            )
        paid, payer = self.__dict__.pop("_paid", (None, None))
        return records, Budget(
            float(self.epsilon),
            float(self.delta),
            records,
            self.ledger,
            str(self.protected_unit),
            type(self).__name__,
            self._public_facts(reader),
            paid=paid if payer is self.ledger else None,
        )

    def _begin_in_memory(self, X: Any, y: Any, **options: Any) -> tuple[Array, Any, Budget]:
        """Return rows, class codes and an empty budget, for what is not a sum over rows."""
        records, budget = self._begin(X, y, **options)
        rows, codes = records.in_memory()  # type: ignore[attr-defined]
        if not is_foreign_array(rows) and (codes < 0).any():  # without a label, a row of zeros
            rows, codes = np.where(codes[:, None] < 0, 0.0, rows), np.maximum(codes, 0)
        return rows, codes, budget

    def _in_memory(
        self, reader: Reader, X: Any, y: Any, groups: Any
    ) -> tuple[ArrayRecords, Reader]:
        """Return the records of an array or a table, and the reader with their label set."""
        if groups is not None and reader.person is None:
            raise InvalidInputError(
                "'groups' are IDs of persons: they are used with unit='person' only. "
                f"Got unit={str(self.protected_unit)!r}."
            )
        with_y = reader
        is_labelled = y is not None or reader.labels is not None
        if self.has_labels or (self.has_labels is None and is_labelled):
            with_y = replace(reader, classes=NO_LABELS)  # only a mark that labels are looked for
        X, y, groups = with_y.split((X, y, groups))
        rows = self._checked_rows(X, reset=True)
        n_rows = int(rows.shape[0])
        if self.has_labels or (self.has_labels is None and y is not None):
            reader, y = self._with_classes(reader, y, n_rows)
        elif reader.target is not None:
            y = checked_column(self, y, n_rows)
        elif self.has_labels is None:
            self.classes_ = NO_LABELS
        if reader.person is not None and groups is None:
            raise InvalidInputError(
                "Unit 'person' needs the ID of each row's person: fit(X, y, groups=...), or a "
                "table whose bounds name the column."
            )
        most = MAX_ROWS if self.relation == Relation.REPLACE_ONE else self.max_secret_rows
        if n_rows > most and reader.person is None:  # of persons only rows that are kept count
            raise InvalidInputError(
                f"At most {most} rows are accepted here with relation {str(self.relation)!r}."
            )
        encoded, codes, *ids = reader((rows, y, groups))
        if reader.person is None:
            return ArrayRecords(encoded, codes, relation=self.relation), reader
        return ArrayRecords.of_persons(
            to_numpy(encoded),
            codes,
            groups=ids[0],
            unit=reader.person,
            relation=self.relation,
            group_by_person=self.groups_rows,
        ), reader

    def _note_features(self, reader: Reader, batch: Any) -> int:
        """Note the features of records that are not in memory, by one of which nothing is known.

        Returns the numbers of a row.
        """
        X, *_ = reader.split(batch)
        self._checked_rows(X, reset=True)
        return int(reader(batch)[0].shape[1])

    def _with_classes(
        self, reader: Reader, y: Any = None, n_rows: int | None = None
    ) -> tuple[Reader, Any]:
        """Return the reader with the public label set, which is noted, and a cell per row of y."""
        if n_rows is not None:
            is_tensor = not isinstance(y, np.ndarray) and not is_out_of_core(y)
            y = checked_column(self, to_host(y) if is_tensor else y, n_rows)
        declared = reader.labels
        if y is None and declared == PUBLIC_LABELS:
            raise MissingBoundsError(
                "Records that are not in memory need their labels listed in the bounds."
            )
        if self.has_labels is False:
            return reader, y
        if self.has_labels is None and y is None and not declared:
            self.classes_ = NO_LABELS
            return reader, y
        bounds = Bounds(norm=1.0, labels=declared)
        self.classes_ = bounds.clip_labels(np.asarray(declared) if y is None else y)[1]
        if self.has_labels and len(self.classes_) < 2:
            raise InvalidInputError(
                "The label set has only one class; a classifier needs at least two."
            )
        return replace(reader, classes=self.classes_), y

    # Rows ---------------------------------------------------------------------------------------

    def _keeps_tensors(self) -> bool:
        """Return whether rows of another array library stay where they are."""
        return False

    def _checked_rows(self, X: Any, *, reset: bool) -> Any:
        """Return X; note its features, or compare them. No value of a cell raises."""
        reader = self._reader
        if isinstance(self.bounds, TableBounds) and is_table(X):
            if reset:  # a table is asked for the columns of the bounds alone
                names = [each.name for each in self.bounds.features]
                if not self.reads_cells:
                    self.n_features_in_ = reader.encoder.width
                    self.__dict__.pop("feature_names_in_", None)
                else:
                    self.n_features_in_ = len(names)
                    self.feature_names_in_ = np.array(names, dtype=object)
            return X
        if isinstance(self.bounds, TableBounds) and (reader.scaled or self.reads_cells):
            if reset:
                FITTED_ON_ARRAYS.add(self)
            elif not (isinstance(X, EncodedRows) or self in FITTED_ON_ARRAYS):
                raise InvalidInputError(
                    "The columns of an array have no names, and the bounds are those of a table: "
                    f"give {type(self).__name__} the table itself; read a file first."
                )
        # [Q5] zero rows are an error only where the number of rows is public
        may_be_empty = reset and self._n_is_secret
        if is_foreign_array(X):
            if self._keeps_tensors():
                return checked_tensor(self, X, reset=reset, may_be_empty=may_be_empty)
            X = to_numpy(X)
        n_features = reader.n_columns if reset else None
        with warnings.catch_warnings():
            if self.reads_cells:  # arrays of `table_rows` have no names, on purpose
                warnings.filterwarnings("ignore", "X does not have valid feature names")
            return checked_rows(
                self, X, reset=reset, n_features=n_features, may_be_empty=may_be_empty
            )

    def _rows(self, X: Any) -> Any:
        """Return records to predict as rows, read as those of the fit were."""
        check_is_fitted(self)
        of_table = isinstance(self.bounds, TableBounds) and is_table(X)
        if of_table and (found := unlisted_cells(self.bounds, X)):  # type: ignore[arg-type]
            cells = ", ".join(f"{name} {n}" for name, n in found.items())
            said = f"Cells with a category that the bounds do not list count as missing: {cells}."
            warnings.warn(said, UnlistedCategoryWarning, stacklevel=4)
        return self._reader.rows(self._checked_rows(X, reset=False))

    def _all_scores(self, X: Any) -> Array:
        """Return `_scores` of records, some rows at a time."""
        rows = self._rows(X)
        n_rows, most = int(rows.shape[0]), SCORED_ROWS
        if not isinstance(rows, np.ndarray):
            most *= 4  # few large products
        starts = range(0, max(1, n_rows), most)
        return np.concatenate([self._scores(rows[i : min(i + most, n_rows), :]) for i in starts])

    # What a fitted estimator tells --------------------------------------------------------------

    def audit(self, *args: Any, **options: Any) -> AuditReport:
        """Attack this estimator's own promise: a lower bound on epsilon, in seconds.

        The estimator is fitted again and again on two neighbours made from its bounds, or only its
        noise is drawn again where that is enough. No data are needed and no ledger is charged.

        Parameters
        ----------
        *args, **options
            See `sfumato.audit.audit`.

        Returns
        -------
        AuditReport
            Its `consistent` is False where more was certified than is promised.
        """
        from sfumato.audit import audit  # here, because audits import estimators

        return audit(self, *args, **options)

    def _check_stored(self, sizes: dict[str, int]) -> None:
        """Refuse a stored model whose attributes do not fit together."""


def _has_probabilities(estimator: Any) -> bool:
    return bool(getattr(estimator, "loss", "softmax") == "softmax")


class PrivateClassifier(ClassifierMixin, PrivateEstimator):
    """Base of classifiers: predictions from `_scores`, one column for two classes or one each."""

    has_labels: ClassVar[bool | None] = True
    learned: ClassVar[Form] = {"classes_": labels("c")}

    @abstractmethod
    def _scores(self, rows: Any) -> Array:
        """Return the scores of rows as `_rows` reads them."""

    def decision_function(self, X: Any) -> Array:
        """Return the scores: of the second class for two classes, else one per class.

        $records
        ndarray of shape (n_samples,) or (n_samples, n_classes)
            Scores.
        """
        scores = self._all_scores(X)
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the label of the largest score.

        $records
        ndarray of shape (n_samples,)
            Labels.
        """
        scores = self._all_scores(X)
        one = scores.shape[1] == 1
        places = (scores[:, 0] > 0).astype(int) if one else scores.argmax(axis=1)
        return np.asarray(self.classes_[places])

    @available_if(_has_probabilities)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> Array:
        """Return the probability of each label, the softmax of the scores.

        $records
        ndarray of shape (n_samples, n_classes)
            Probabilities.
        """
        scores = self._all_scores(X)
        if scores.shape[1] == 1:
            scores = np.column_stack([np.zeros(len(scores)), scores])
        return np.asarray(np.exp(log_softmax(scores, axis=1)))

    def _check_stored(self, sizes: dict[str, int]) -> None:
        scores = sizes.get("s", sizes["c"])
        if sizes["c"] < 2 or ("s" in sizes and scores != (1 if sizes["c"] == 2 else sizes["c"])):
            raise refuse("classes_", "two labels or more, and as many scores as they ask for")


def target_range(owner: Any) -> tuple[float, float]:
    """Return the public range of a regressor's target: its parameter, or that of the bounds."""
    return range_of_target(owner.target_bounds, owner.bounds)


class PrivateRegressor(RegressorMixin, PrivateEstimator):
    """Base of regressors: a public range of the target."""

    def predict(self, X: Any) -> Array:
        """Return the expected target of rows, inside its public range.

        $records
        ndarray of shape (n_samples,)
            Predictions.
        """
        raise NotImplementedError

    def _check_stored(self, sizes: dict[str, int]) -> None:  # noqa: ARG002
        target_range(self)


def _check_callers() -> None:
    """Warn of callers that make much of many fits, by the names of their modules.

    A pipeline that calls this fit after a step which has learned from raw rows is refused.
    """
    frame: Any = sys._getframe(2)
    while frame is not None:
        name = str(frame.f_globals.get("__name__", ""))
        if name.startswith("sklearn."):
            for module, (about, words) in CALLERS.items():
                if name.startswith(module):
                    say_once(about, words, stacklevel=4)
        caller = frame.f_locals.get("self") if frame.f_code.co_name == "fit" else None
        if isinstance(caller, Pipeline):
            from sfumato.models.pipelines import check_pipeline  # here: it imports this file

            check_pipeline(caller)
        frame = frame.f_back


def _guard(fit: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap `fit`: weights are refused, searches warned; a charge outlives an engine that fails."""

    @functools.wraps(fit)
    def guarded(self: Any, *args: Any, **options: Any) -> Any:
        if "sample_weight" in options:
            raise UnsupportedModeError(
                f"{type(self).__name__} takes no 'sample_weight': a weight above 1 would let one "
                "record move a sum further than was paid for, and one below 1 would still cost as "
                "much. To weight classes, multiply what predict_proba returns."
            )
        _check_callers()
        if isinstance(getattr(self, "bounds", None), Mapping):
            self.bounds = bounds_from(self.bounds)
        try:
            return fit(self, *args, **options)
        except EngineError as error:
            if error.receipt is not None and error.receipt.is_untouched:
                self._paid = error.receipt, self.ledger  # a copy of a receipt is the receipt
            raise

    guarded.refuses_weights = True  # type: ignore[attr-defined]
    guarded.__doc__ = fit.__doc__ or PrivateEstimator.fit.__doc__
    return guarded
