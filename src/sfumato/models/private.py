"""What every private estimator shares: its promise checked, paid for and written down."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from dataclasses import replace
from numbers import Real
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import Tags, check_random_state

from sfumato.core.arrays import is_foreign_array, to_numpy
from sfumato.exceptions import (
    BudgetExceededError,
    EngineError,
    InvalidInputError,
    MissingBoundsError,
    UnsupportedModeError,
)
from sfumato.ledger.receipt import Receipt, prepay
from sfumato.mechanisms.base import Mechanism, noise_status, require_epsilon
from sfumato.models import base
from sfumato.models.scores import warn_inside_model_selection, warn_on_score
from sfumato.privacy.composition import epsilon_spent
from sfumato.privacy.events import Event
from sfumato.privacy.guarantee import Guarantee, Relation, Unit
from sfumato.privacy.interchange import to_dp_event
from sfumato.sums.elsewhere import RemoteRecords, is_row_dataset
from sfumato.sums.grid import MAX_ROWS, MAX_ROWS_SECRET_N
from sfumato.sums.maps import Encoded, IntoUnitBall
from sfumato.sums.opening import all_missing_record, partitions_of
from sfumato.sums.partitions import PartitionedRecords
from sfumato.sums.persons import PersonUnit
from sfumato.sums.reading import BatchReader
from sfumato.sums.records import ArrayRecords, Records
from sfumato.tables.bounds import PUBLIC_LABELS, Bounds
from sfumato.tables.cells import (
    check_workers,
    checked_column,
    checked_rows as checked_rows,
    checked_tensor,
    columns_of,
    is_out_of_core,
    is_table,
)
from sfumato.tables.encoder import TableEncoder
from sfumato.tables.schema import TableBounds

if TYPE_CHECKING:
    from sfumato.audit import AuditReport


class PrivateEstimator(base.PrivateEstimator):
    """Base of private estimators.

    A subclass takes `epsilon`, `delta`, `unit`, `relation`, `bounds` and `ledger`, lists
    what it offers in the two tuples below, and writes `fit` as the algorithm: rows, prepay,
    release, post-processing, guarantee.
    """

    offered_units: ClassVar[tuple[Unit, ...]] = (Unit.RECORD,)
    offered_relations: ClassVar[tuple[Relation, ...]] = (
        Relation.REPLACE_ONE,
        Relation.ADD_OR_REMOVE_ONE,
    )

    # Whether columns of `Bounds` with a range each are scaled to it, and numbers of a table are.
    scales_columns: ClassVar[bool] = True
    scales_tables: ClassVar[bool] = True

    joins_rows: ClassVar[bool] = False  # whether rows of a person are bounded together

    # Constructor arguments of every subclass.
    epsilon: float
    delta: float
    unit: str
    relation: str
    bounds: Bounds | TableBounds | None
    ledger: Any

    def __init_subclass__(cls, **options: Any) -> None:
        """Let `score` say what it is, and `fit` refuse weights of records with a reason."""
        if "fit" in vars(cls):
            cls.fit = _guarded(vars(cls)["fit"])
        score = getattr(cls, "score", None)
        if score is not None and not hasattr(score, "says_once"):
            cls.score = warn_on_score(score)
        super(base.PrivateEstimator, cls).__init_subclass__(**options)

    @property
    def keeps_tensors(self) -> bool:
        """Whether rows of another array library stay where they are."""
        return False

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        # A missing or infinite number is replaced by a public default, row by row: an error
        # would tell that such a row is there.
        tags.input_tags.allow_nan = True
        tags.non_deterministic = True
        return tags

    def _check_request(self) -> None:
        """Check the words and the budget of the promise."""
        _require_offered(self.unit, Unit, self.offered_units, self)
        if Unit(self.unit) is Unit.PERSON and self.person_unit is None:
            raise MissingBoundsError(
                "Unit 'person' needs the largest number of rows used per person, which is "
                "public: Bounds(..., person_rows=8), or 'person' and 'person_rows' in "
                "the bounds of a table."
            )
        _require_offered(self.relation, Relation, self.offered_relations, self)
        require_epsilon(self.epsilon)
        if not (isinstance(self.delta, Real) and 0 <= self.delta < 1):
            raise InvalidInputError(f"'delta' must lie in [0, 1). Got {self.delta} instead.")
        check_workers(getattr(self, "n_jobs", None))
        try:
            check_random_state(getattr(self, "random_state", None))
        except (TypeError, ValueError):
            raise InvalidInputError(
                "'random_state' must be None, a whole number from 0 to 2**32 - 1 or a RandomState. "
                f"Got {self.random_state!r} instead."
            ) from None

    def _validate_privacy_params(self) -> Bounds:
        """Check what is asked for and return the bounds, before any row is looked at."""
        self._check_request()
        if not isinstance(self.bounds, Bounds | TableBounds):
            raise MissingBoundsError(
                f"{type(self).__name__} needs public bounds, which are never learned from data: "
                "bounds=Bounds(norm=...), Bounds(lower=..., upper=...) or a TableBounds."
            )
        return self.row_bounds

    @property
    def person_unit(self) -> PersonUnit | None:
        """What is public about persons, where they are the unit."""
        rows = getattr(self.bounds, "person_rows", None)
        if self.unit != Unit.PERSON or rows is None:
            return None
        return PersonUnit(rows, getattr(self.bounds, "per_person", "average"))

    @property
    def _encoder(self) -> TableEncoder:
        """The public encoding of records."""
        is_plain = isinstance(self.bounds, Bounds)
        return TableEncoder(
            self.bounds, scaled=self.scales_columns if is_plain else self.scales_tables
        )

    @property
    def row_bounds(self) -> Bounds:
        """Public bounds of the rows that records become: see `TableEncoder`."""
        return self._encoder.row_bounds()

    @property
    def array_bounds(self) -> Bounds:
        """Public bounds of the arrays that `fit` takes: those given, or of a table's rows."""
        return self.bounds if isinstance(self.bounds, Bounds) else self.row_bounds

    def table_rows(self, table: Any) -> NDArray[np.float64]:
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
        return self._encoder.transform(table)

    def _check_rows(self, X: Any, *, reset: bool = True) -> NDArray[np.float64]:
        """Encode records as rows of doubles and check their shape; values are left to `clip`."""
        if reset and is_out_of_core(X):
            raise UnsupportedModeError(
                f"{type(self).__name__} needs all rows in memory with these settings: read the "
                "table first and give it as a data frame or an array."
            )
        # [Q5] zero rows are an error only where the number of rows is public
        is_secret = reset and self._n_is_secret
        if is_foreign_array(X) and not is_out_of_core(X):
            if self.keeps_tensors:
                tensor: Any = checked_tensor(self, X, reset=reset, may_be_empty=is_secret)
                self._check_number(int(tensor.shape[0]) if reset else 0)
                return tensor  # type: ignore[no-any-return]  # an array like any other
            X = to_numpy(X)
        encoder, X = self._encoder, self._encoded(X)
        is_plain = isinstance(self.bounds, Bounds)
        declared = getattr(self.bounds, "n_features", None) if is_plain else encoder.width
        rows = checked_rows(
            self, X, reset=reset, n_features=declared if reset else None, may_be_empty=is_secret
        )
        if reset:
            self._check_number(len(rows))
            self.array_bounds.box(rows.shape[1])  # before anything is charged
        return encoder.transform(rows) if is_plain else rows

    @property
    def _n_is_secret(self) -> bool:
        """Whether the number of rows is secret."""
        return Relation(self.relation) is Relation.ADD_OR_REMOVE_ONE or self.person_unit is not None

    def _encoded(self, X: Any) -> Any:
        """Return a table with public bounds of its own as rows; anything else as it is."""
        has_own = isinstance(self.bounds, TableBounds) and is_table(X)
        return self._encoder.transform(X) if has_own else X

    def _target(self, X: Any, y: Any) -> Any:
        """Return `y`, or the column of a table that the bounds name as its target."""
        if not (isinstance(self.bounds, TableBounds) and is_table(X)):
            return y
        if y is None or isinstance(y, str):
            return self.bounds.target_of(X, y)
        return y

    def _check_number(self, n_rows: int) -> None:
        """Refuse more rows than sums are exact for: a public number, before anything is charged."""
        is_public = Relation(self.relation) is Relation.REPLACE_ONE
        most = MAX_ROWS if is_public else self._max_rows
        if n_rows > most and self.person_unit is None:  # of persons only rows that are kept count
            raise InvalidInputError(
                f"At most {most} rows are accepted here with relation {str(self.relation)!r}."
            )

    def _groups(self, X: Any, groups: Any) -> Any:
        """Return the IDs of persons, or the column the bounds name; None for records."""
        if self.person_unit is None:
            if groups is not None:
                raise InvalidInputError(
                    "'groups' are IDs of persons: they are used with unit='person' only. "
                    f"Got unit={str(self.unit)!r}."
                )
            return None
        named = getattr(self.bounds, "person", None) if groups is None else groups
        if isinstance(named, str) and is_table(X):
            return columns_of(X, [named])[named]
        if groups is None:
            raise InvalidInputError(
                "Unit 'person' needs the ID of each row's person: fit(X, y, groups=...), or a "
                "table whose bounds name the column."
            )
        return groups

    def _array_records(
        self, rows: Any, codes: NDArray[np.intp] | None, groups: Any
    ) -> ArrayRecords:
        """Return rows as records, or as records of persons, and check their public number."""
        if self.person_unit is None:
            self._warn_if_weak(int(rows.shape[0]))
            return ArrayRecords(rows, codes, relation=self.relation)
        records = ArrayRecords.of_persons(
            to_numpy(rows),
            codes,
            groups=groups,
            unit=self.person_unit,
            relation=self.relation,
            group_by_person=self.joins_rows,
        )
        if records.public_persons is not None:
            self._warn_if_weak(records.public_persons)
        return records

    def _unit_records(
        self, X: ArrayLike | Records, y: ArrayLike | None, bounds: Bounds, groups: Any = None
    ) -> tuple[Records, NDArray[Any]]:
        """Return the records with their rows in the unit ball, and the public label set.

        Without labels all records are of one class, 0.
        """
        records, classes = self._records(X, self._target(X, y), bounds, groups)
        return records.mapped(IntoUnitBall(bounds, records.width)), classes

    def _labelled_unit_records(
        self, X: ArrayLike | Records, y: ArrayLike | None, bounds: Bounds, groups: Any = None
    ) -> tuple[Records, NDArray[Any]]:
        """Do the same for a classifier: two labels at least."""
        y = self._target(X, y)
        if y is None and not isinstance(X, Records) and not is_out_of_core(X):
            raise InvalidInputError(
                f"{type(self).__name__} requires y to be passed, but the target y is None."
            )
        records, classes = self._unit_records(X, y, bounds, groups)
        if len(classes) < 2:
            raise InvalidInputError(
                "The label set has only one class; a classifier needs at least two."
            )
        return records, classes

    def _records(
        self, X: ArrayLike | Records, y: ArrayLike | None, bounds: Bounds, groups: Any = None
    ) -> tuple[Records, NDArray[Any]]:
        """Check rows and labels and return them as records, in their own units."""
        if isinstance(X, Records) and is_row_dataset(X):
            self._check_records(X)
            self.n_features_in_ = X.width
            self.array_bounds.box(X.width)  # before anything is charged
            if bounds.labels == PUBLIC_LABELS:
                raise MissingBoundsError(
                    "Records that are not in memory need their labels listed in the bounds."
                )
            classes = None if bounds.labels is None else bounds.label_set(np.asarray(bounds.labels))
            if isinstance(X, RemoteRecords):
                from sfumato.models.base import Reader  # here, because it imports this module

                scaled = self._encoder.scaled
                X = X.read_by(Reader(self.bounds, scaled=scaled, classes=classes), X.width)
            elif isinstance(self.bounds, Bounds):
                X = X.mapped(Encoded(self._encoder, X.width))
            return X, _ONE_CLASS if classes is None else classes
        records, *rest = self._read(self._labelled_rows, X, y, groups)
        return records, rest[0]

    def _labelled_rows(
        self, X: Any, y: Any
    ) -> tuple[NDArray[np.float64], NDArray[np.intp] | None, NDArray[Any]]:
        """Return rows, the numbers of their labels and the label set; without labels one class."""
        rows = self._check_rows(X)
        if y is None:
            return rows, None, _ONE_CLASS
        return rows, *self.row_bounds.clip_labels(checked_column(self, y, rows.shape[0]))

    # Where records lie ------------------------------------------------------------------------

    def _read(self, rows_of: Callable[..., Any], X: Any, y: Any, groups: Any) -> tuple[Any, ...]:
        """Return records, in memory or elsewhere, and what else `rows_of` says about them.

        `rows_of` is a method of this estimator that gives rows, codes and public facts of a table
        and its target. Of records elsewhere it is applied to each batch, by a copy of the
        unfitted estimator, and here to one record of which nothing is known.
        """
        if not is_out_of_core(X):
            rows, codes, *facts = rows_of(X, self._target(X, y))
            return self._array_records(rows, codes, self._groups(X, groups)), *facts
        if isinstance(X, RemoteRecords):
            return self._read_at_parties(rows_of, X)
        parts, y, groups = partitions_of(X, y, groups)
        if self._declared_labels == PUBLIC_LABELS:
            raise MissingBoundsError(
                "Records that are not in memory need their labels listed in the bounds."
            )
        parts = (
            parts.declared(self.bounds.types(), self.bounds.text)
            if isinstance(self.bounds, TableBounds)
            else parts.undeclared()
        )
        unfitted = type(self)(**{**self.get_params(deep=False), "ledger": None})
        reader = BatchReader(unfitted, rows_of.__name__, y, groups)
        unknown = replace(reader, estimator=self).of(
            all_missing_record(parts.columns, parts.schema)
        )
        if self.person_unit is not None:
            parts = parts.by_person(reader.ids_of)
        records = PartitionedRecords(
            parts,
            reader,
            width=int(unknown[0].shape[1]),
            relation=self.relation,
            person=self.person_unit,
        )
        number = records.public_rows if records.person is None else records.public_persons
        if number is not None:
            self._warn_if_weak(number)
        return records, *unknown[2:]

    def _read_at_parties(self, rows_of: Callable[..., Any], X: RemoteRecords) -> tuple[Any, ...]:
        """Let parties read their tables as this estimator would; no row comes here."""
        self._check_records(X)
        settings = {"ledger": None, "random_state": None}
        given = self.get_params(deep=False)
        unfitted = type(self)(**{**given, **{k: v for k, v in settings.items() if k in given}})
        reader = BatchReader(unfitted, rows_of.__name__, None, None)
        unknown = replace(reader, estimator=self).of(reader.at_party(all_missing_record(X.columns)))
        return X.read_by(reader, int(unknown[0].shape[1])), *unknown[2:]

    def _check_records(self, records: Records) -> None:
        """Refuse records that were made for another promise."""
        if records.relation is not Relation(self.relation):  # its sensitivities are for other pairs
            raise InvalidInputError(
                f"The records are for relation {str(records.relation)!r}, "
                f"{type(self).__name__} has relation {str(self.relation)!r}."
            )
        if records.person != self.person_unit:
            raise InvalidInputError(
                f"The records were made for other persons or another unit than unit "
                f"{str(self.unit)!r} of {type(self).__name__}."
            )
        number = records.public_rows if records.person is None else records.public_persons
        if number is not None:
            self._warn_if_weak(number)

    def _warn_of_passes(self, records: Records, n_passes: int, instead: str) -> None:
        """Warn before the charge that an engine will be asked many times."""
        if isinstance(records, PartitionedRecords) and records.is_remote and n_passes > MANY_PASSES:
            warnings.warn(
                f"This fit asks the engine {n_passes} times for a sum over all parts. {instead}",
                stacklevel=4,
            )

    def _charge(self, *mechanisms: Mechanism) -> Receipt:
        """Charge everything that this fit will release, in one transaction."""
        events = [mechanism.event() for mechanism in mechanisms]
        relation = Relation(self.relation)
        cost = epsilon_spent(events, self.delta, relation, enough=float(self.epsilon))
        if cost > self.epsilon:
            raise BudgetExceededError(
                f"The releases of {type(self).__name__} would cost epsilon {cost:g}, its parameter "
                f"allows {self.epsilon:g}. Nothing was drawn.",
                spent=0.0,
                asked=cost,
                left=float(self.epsilon),
            )
        self.__dict__.pop("guarantee_", None)  # of an earlier fit: this one may fail from here on
        # What was paid for a fit whose engine failed before any noise was drawn is drawn on now.
        paid: Receipt | None
        paid, payer = self.__dict__.pop("_paid", (None, None))
        if paid is None or payer is not self.ledger or not _covers(paid, events, self):
            paid = prepay(self.ledger, *events, unit=self.unit, relation=self.relation)
        return paid

    def _guarantee(self, receipt: Receipt, *public: str) -> Guarantee:
        """Write down the promise for what was drawn."""
        spent = epsilon_spent(receipt.events, self.delta, Relation(self.relation))
        asked = float(self.epsilon)
        return Guarantee(
            # Calibration stops a hair short of the budget; the round figure is true as well.
            epsilon=asked if asked * (1 - 1e-6) <= spent <= asked else spent,
            delta=self.delta,
            unit=Unit(self.unit),
            relation=Relation(self.relation),
            public=self._public_facts() + public,
            status=noise_status(),
            events=receipt.events,
        ).only_if(*receipt.conditions)

    @property
    def _max_rows(self) -> int:
        """Public bound, a power of two, on a secret number of rows."""
        return MAX_ROWS_SECRET_N

    def _public_facts(self) -> tuple[str, ...]:
        facts = ["bounds", "parameters of the estimator", "number of features"]
        person = self.person_unit
        if Relation(self.relation) is Relation.REPLACE_ONE:
            facts.append("number of rows" if person is None else "number of persons")
        else:  # sums are exact for so many rows, and more are refused
            facts.append(f"at most 2**{self._max_rows.bit_length() - 1} rows")
        if person is not None:
            facts.append(f"at most {person.rows} rows per person, added up as their {person.way}")
        if isinstance(self.bounds, TableBounds):
            facts.append("names, types, ranges and categories of the columns")
        labels = self._declared_labels
        if labels is not None:
            declared = labels == PUBLIC_LABELS
            facts.append("set of labels found in the data" if declared else "set of labels")
        return tuple(facts)

    @property
    def _declared_labels(self) -> Any:
        """The label set as it was declared; a table has it in its target."""
        return getattr(getattr(self.bounds, "target", self.bounds), "labels", None)

    def _warn_if_weak(self, n_rows: int) -> None:
        # Only the public number of rows may be compared, hence only under replace_one.
        if Relation(self.relation) is Relation.REPLACE_ONE and self.delta > 1 / n_rows:
            one = "row" if self.person_unit is None else "person"
            warnings.warn(
                f"delta={self.delta:g} is above 1/number of {one}s: publishing one {one} at random "
                "would already be allowed. Choose a smaller delta.",
                stacklevel=3,
            )

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
        from sfumato.audit import audit  # here, because audits stand above all estimators

        return audit(self, *args, **options)

    def dp_events(self) -> list[Any]:
        """Return the releases of the last fit as `dp_accounting` events."""
        guarantee: Guarantee = self.guarantee_
        return [to_dp_event(event, guarantee.relation) for event in guarantee.events]


_ONE_CLASS = np.zeros(1, dtype=int)
MANY_PASSES = 48  # over a cluster, from which on another algorithm is worth a thought


def _guarded(fit: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap `fit`: weights are refused, searches warned; a charge outlives an engine that fails."""

    @functools.wraps(fit)
    def fitted(self: Any, *args: Any, **options: Any) -> Any:
        if "sample_weight" in options:
            raise UnsupportedModeError(
                f"{type(self).__name__} takes no 'sample_weight': a weight above 1 would let one "
                "record move a sum further than was paid for, and one below 1 would still cost as "
                "much. Give public weights of classes where the estimator has 'class_weight'."
            )
        warn_inside_model_selection()
        try:
            return fit(self, *args, **options)
        except EngineError as error:
            if error.receipt is not None and error.receipt.is_untouched:
                self._paid = error.receipt, self.ledger  # a copy of a receipt is the receipt
            raise

    fitted.refuses_weights = True  # type: ignore[attr-defined]
    return fitted


def _covers(receipt: Receipt, events: list[Event], asked: PrivateEstimator) -> bool:
    """Whether nothing was drawn on a receipt of this process for the same releases."""
    words = (Unit(asked.unit), Relation(asked.relation))
    same = receipt.events == tuple(events) and (receipt.unit, receipt.relation) == words
    return same and receipt.is_untouched and receipt.is_of_this_process


def _require_offered(value: Any, kind: Any, offered: tuple[Any, ...], owner: object) -> None:
    if kind(value) not in offered:
        name, listed = kind.__name__.lower(), ", ".join(repr(str(word)) for word in offered)
        instead = (
            " What its guarantee is worth to a person with at most k rows, the group curve, "
            "is sfumato.privacy.for_persons(model.guarantee_, k)."
            if kind(value) == Unit.PERSON
            else ""
        )
        raise UnsupportedModeError(
            f"{type(owner).__name__} offers {name} {listed}. Got {value!r} instead.{instead}"
        )
