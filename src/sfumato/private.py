"""What every private estimator shares: its promise checked, paid for and written down."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import issparse
from sklearn.base import BaseEstimator
from sklearn.exceptions import DataConversionWarning
from sklearn.utils import Tags
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_array, validate_data

from sfumato.accounting.composition import epsilon_spent
from sfumato.accounting.interchange import to_dp_event
from sfumato.accounting.receipt import Receipt, prepay
from sfumato.bounds import PUBLIC_LABELS, Bounds
from sfumato.cells import as_cells, as_rows
from sfumato.exceptions import (
    BudgetExceededError,
    InvalidInputError,
    InvalidTypeError,
    MissingBoundsError,
    UnsupportedModeError,
)
from sfumato.guarantee import Guarantee, Mode, Relation, Unit
from sfumato.mechanisms.base import Mechanism, noise_status, require_epsilon
from sfumato.sums.grid import MOST_ROWS
from sfumato.sums.maps import IntoUnitBall
from sfumato.sums.records import ArrayRecords, Records

if TYPE_CHECKING:
    from sfumato.auditing import AuditReport

__all__ = ["PrivateEstimator", "checked_rows"]


class PrivateEstimator(BaseEstimator):
    """Base of private estimators.

    A subclass takes `epsilon`, `delta`, `unit`, `relation`, `mode`, `bounds` and `ledger`, lists
    what it offers in the three tuples below, and writes `fit` as the algorithm: rows, prepay,
    release, post-processing, guarantee.
    """

    offered_units: ClassVar[tuple[Unit, ...]] = (Unit.RECORD,)
    offered_relations: ClassVar[tuple[Relation, ...]] = (
        Relation.REPLACE_ONE,
        Relation.ADD_OR_REMOVE_ONE,
    )
    offered_modes: ClassVar[tuple[Mode, ...]] = (Mode.STRICT,)

    # Constructor arguments of every subclass.
    epsilon: float
    delta: float
    unit: str
    relation: str
    mode: str
    bounds: Bounds | None
    ledger: Any

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        # A missing or infinite number is replaced by a public default, row by row: an error
        # would tell that such a row is there.
        tags.input_tags.allow_nan = True
        tags.non_deterministic = True
        return tags

    def _check_promise(self) -> Bounds:
        """Check what is asked for and give the bounds, before any row is looked at."""
        _require_offered(self.unit, Unit, self.offered_units, self)
        _require_offered(self.relation, Relation, self.offered_relations, self)
        _require_offered(self.mode, Mode, self.offered_modes, self)
        require_epsilon(self.epsilon)
        if not 0 <= self.delta < 1:
            raise InvalidInputError(f"'delta' must lie in [0, 1). Got {self.delta} instead.")
        if not isinstance(self.bounds, Bounds):
            raise MissingBoundsError(
                f"{type(self).__name__} needs public bounds, which are never learned from data: "
                "bounds=Bounds(norm=...) or bounds=Bounds(lower=..., upper=...)."
            )
        self.bounds.require_features()
        return self.bounds

    def _check_rows(
        self, X: ArrayLike, *, reset: bool = True, bounds: Bounds | None = None
    ) -> NDArray[np.float64]:
        """Give rows of doubles and check their shape; values are left to `Bounds.clip`.

        `bounds` are those of the rows, where they are not those of the estimator.
        """
        bounds = self.bounds if bounds is None else bounds
        declared = bounds.n_features if reset and bounds is not None else None
        # [Q5] zero rows are an error only where the number of rows is public
        is_secret = reset and Relation(self.relation) is Relation.ADD_OR_REMOVE_ONE
        rows = checked_rows(self, X, reset=reset, n_features=declared, may_be_empty=is_secret)
        if reset:
            self._check_number(len(rows))
        if reset and bounds is not None:
            bounds.box(rows.shape[1])  # before anything is charged
        return rows

    def _check_number(self, n_rows: int) -> None:
        """Refuse more rows than sums are exact for: a public number, before anything is charged."""
        is_public = Relation(self.relation) is Relation.REPLACE_ONE
        most = MOST_ROWS if is_public else self._most_rows
        if n_rows > most:
            raise InvalidInputError(
                f"At most {most} rows are taken here with relation {str(self.relation)!r}."
            )

    def _check_labels(
        self, X: NDArray[np.float64], y: ArrayLike | None, bounds: Bounds
    ) -> tuple[NDArray[np.intp], NDArray[Any]]:
        """Give label codes and the public label set."""
        labels = self._check_column(X, y)
        if bounds.labels == PUBLIC_LABELS:
            try:
                labels = np.asarray(labels.tolist()) if labels.dtype == object else labels
                check_classification_targets(labels)
            except ValueError as error:
                raise InvalidInputError(_without_values(error)) from None
        return bounds.clip_labels(labels)

    def _check_column(self, X: NDArray[np.float64], y: ArrayLike | None) -> NDArray[Any]:
        """Give labels or targets as one cell a row; of the cells nothing is asked."""
        if y is None:
            raise InvalidInputError(
                f"{type(self).__name__} requires y to be passed, but the target y is None."
            )
        column = as_cells(y)
        if column.ndim == 2 and column.shape[1] == 1:
            warnings.warn(
                "A column-vector y was passed when a 1d array was expected. Please change the "
                "shape of y to (n_samples, ), for example using ravel().",
                DataConversionWarning,
                stacklevel=4,
            )
            column = column.ravel()
        if column.ndim != 1:
            raise InvalidInputError(
                f"y should be a 1d array, got {column.ndim} dimensions instead."
            )
        if len(column) != X.shape[0]:
            raise InvalidInputError("X and y have inconsistent numbers of samples.")
        return column

    def _unit_records(
        self, X: ArrayLike | Records, y: ArrayLike | None, bounds: Bounds
    ) -> tuple[Records, NDArray[Any]]:
        """Give the records with their rows in the unit ball, and the public label set.

        Without labels all records are of one class, 0.
        """
        records, classes = self._records(X, y, bounds)
        return records.mapped(IntoUnitBall(bounds, records.width)), classes

    def _labelled_unit_records(
        self, X: ArrayLike | Records, y: ArrayLike | None, bounds: Bounds
    ) -> tuple[Records, NDArray[Any]]:
        """Do the same for a classifier: two labels at least."""
        if y is None and not isinstance(X, Records):
            raise InvalidInputError(
                f"{type(self).__name__} requires y to be passed, but the target y is None."
            )
        records, classes = self._unit_records(X, y, bounds)
        if len(classes) < 2:
            raise InvalidInputError(
                "The label set holds one class; a classifier needs at least two."
            )
        return records, classes

    def _records(
        self, X: ArrayLike | Records, y: ArrayLike | None, bounds: Bounds
    ) -> tuple[Records, NDArray[Any]]:
        """Check rows and labels and give them as records, in their own units."""
        if isinstance(X, Records):
            if X.relation is not Relation(self.relation):  # its sensitivities are for other pairs
                raise InvalidInputError(
                    f"The records are for relation {str(X.relation)!r}, "
                    f"{type(self).__name__} has relation {str(self.relation)!r}."
                )
            self.n_features_in_ = X.width
            if X.public_rows is not None:
                self._warn_if_weak(X.public_rows)
            if bounds.labels == PUBLIC_LABELS:
                raise MissingBoundsError(
                    "Records that are not in memory need their labels listed in the bounds."
                )
            if bounds.labels is None:
                return X, _ONE_CLASS
            return X, bounds.label_set(np.asarray(bounds.labels))
        rows = self._check_rows(X)
        codes, classes = None, _ONE_CLASS
        if y is not None:
            codes, classes = self._check_labels(rows, y, bounds)
        self._warn_if_weak(int(rows.shape[0]))
        return ArrayRecords(rows, codes, relation=self.relation), classes

    def _prepay(self, *mechanisms: Mechanism) -> Receipt:
        """Charge everything that this fit will release, in one transaction."""
        events = [mechanism.event() for mechanism in mechanisms]
        cost = epsilon_spent(events, self.delta, Relation(self.relation))
        if cost > self.epsilon:
            raise BudgetExceededError(
                f"The releases of {type(self).__name__} would cost epsilon {cost:g}, its parameter "
                f"allows {self.epsilon:g}. Nothing was drawn.",
                spent=0.0,
                asked=cost,
                left=float(self.epsilon),
            )
        self.__dict__.pop("guarantee_", None)  # of an earlier fit: this one may fail from here on
        return prepay(self.ledger, *events, unit=self.unit, relation=self.relation)

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
            status=noise_status(),
            public=self._public_facts() + public,
            events=receipt.events,
        )

    @property
    def _most_rows(self) -> int:
        """Public bound, a power of two, on a secret number of rows."""
        return MOST_ROWS

    def _public_facts(self) -> tuple[str, ...]:
        facts = ["bounds", "parameters of the estimator", "number of features"]
        if Relation(self.relation) is Relation.REPLACE_ONE:
            facts.append("number of rows")
        else:  # sums are exact for so many rows, and more are refused
            facts.append(f"at most 2**{self._most_rows.bit_length() - 1} rows")
        if self.bounds is not None and self.bounds.labels is not None:
            declared = self.bounds.labels == PUBLIC_LABELS
            facts.append("set of labels found in the data" if declared else "set of labels")
        return tuple(facts)

    def _warn_if_weak(self, n_rows: int) -> None:
        # Only the public number of rows may be compared, hence only under replace_one.
        if Relation(self.relation) is Relation.REPLACE_ONE and self.delta > 1 / n_rows:
            warnings.warn(
                f"delta={self.delta:g} is above 1/number of rows: publishing one row at random "
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
            See `sfumato.auditing.audit`.

        Returns
        -------
        AuditReport
            Its `consistent` is False where more was certified than is promised.
        """
        from sfumato.auditing import audit  # here, because audits stand above all estimators

        return audit(self, *args, **options)

    def dp_events(self) -> list[Any]:
        """Give the releases of the last fit as `dp_accounting` events."""
        guarantee: Guarantee = self.guarantee_
        return [to_dp_event(event, guarantee.relation) for event in guarantee.events]


_ONE_CLASS = np.zeros(1, dtype=int)


def checked_rows(
    estimator: BaseEstimator,
    X: ArrayLike,
    *,
    reset: bool,
    n_features: int | None = None,
    may_be_empty: bool = False,
) -> NDArray[np.float64]:
    """Give rows of doubles, and note or check the number and the names of their features.

    Parameters
    ----------
    estimator : estimator
        Whose rows they are.
    X : array-like
        Records, see `as_rows`; no value raises.
    reset : bool
        Whether the features are noted, as in `fit`, or checked.
    n_features : int, optional
        See `as_rows`.
    may_be_empty : bool, default=False
        Whether there may be no row at all.

    Returns
    -------
    ndarray of shape (n_samples, n_features)
        Rows.
    """
    try:
        if issparse(X):
            check_array(X)  # raises what scikit-learn raises
        rows = as_rows(X, n_features)
        for axis, name in enumerate(("sample(s)", "feature(s)")):
            if not rows.shape[axis] and not (axis == 0 and may_be_empty):
                shape = ("n", rows.shape[1]) if may_be_empty else rows.shape
                raise InvalidInputError(
                    f"Found array with 0 {name} (shape={shape}) while a minimum of 1 is required."
                )
        named = X if hasattr(X, "columns") else rows
        validate_data(estimator, named, reset=reset, skip_check_array=True)
    except InvalidInputError:
        raise
    except TypeError as error:
        raise InvalidTypeError(str(error)) from None
    except ValueError as error:
        raise InvalidInputError(str(error)) from None
    return rows


def _require_offered(value: Any, kind: Any, offered: tuple[Any, ...], owner: object) -> None:
    if kind(value) not in offered:
        name, listed = kind.__name__.lower(), ", ".join(repr(str(word)) for word in offered)
        raise UnsupportedModeError(
            f"{type(owner).__name__} offers {name} {listed}. Got {value!r} instead."
        )


def _without_values(error: Exception) -> str:
    """Give the first sentence of an error without the cells that other libraries put into it."""
    return str(error).partition("array=")[0].partition("\n")[0].rstrip(" :.") + "."
