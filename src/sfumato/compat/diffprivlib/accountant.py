"""An accountant in memory, with diffprivlib's signature; a `Ledger` is the durable one."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, ClassVar, NamedTuple, Self

from sfumato.accounting.composition import epsilon_spent
from sfumato.accounting.receipt import Receipt
from sfumato.events import Event, PureEvent
from sfumato.exceptions import BudgetExceededError, InvalidInputError

__all__ = ["Bill", "Budget", "BudgetAccountant"]

N_HALVINGS = 60


class Budget(NamedTuple):
    """A pair (epsilon, delta), at least another if both parts are, and not as tuples are.

    >>> Budget(2, 0) >= Budget(1, 0.5), (2, 0) >= (1, 0.5)
    (False, True)
    """

    epsilon: float
    delta: float

    def __ge__(self, other: tuple[float, ...]) -> bool:
        return self[0] >= other[0] and self[1] >= other[1]

    def __le__(self, other: tuple[float, ...]) -> bool:
        return self[0] <= other[0] and self[1] <= other[1]

    def __gt__(self, other: tuple[float, ...]) -> bool:
        return self >= other and self != other

    def __lt__(self, other: tuple[float, ...]) -> bool:
        return self <= other and self != other

    def __repr__(self) -> str:
        return f"(epsilon={self.epsilon!r}, delta={self.delta!r})"


class BudgetAccountant:
    """Keep count of what was spent, in this process; refuse what would pass the ceiling.

    Parameters
    ----------
    epsilon, delta : float, default=inf, 1.0
        The ceiling.
    slack : float, default=0.0
        Delta that may be given up for a smaller total epsilon. With it the total is the smallest
        epsilon that the loss distribution of all spends has, never above diffprivlib's.
    spent_budget : sequence of (epsilon, delta), optional
        What was spent before.

    Examples
    --------
    >>> from sfumato.compat.diffprivlib import BudgetAccountant
    >>> accountant = BudgetAccountant(epsilon=1.5, delta=0)
    >>> accountant.spend(1.0, 0).total()
    (epsilon=1.0, delta=0.0)
    >>> accountant.remaining()
    (epsilon=0.5, delta=0.0)
    """

    _default: ClassVar[BudgetAccountant | None] = None

    def __init__(
        self,
        epsilon: float = math.inf,
        delta: float = 1.0,
        slack: float = 0.0,
        spent_budget: Sequence[tuple[float, float]] | None = None,
    ) -> None:
        self.epsilon, self.delta = _checked(epsilon, delta)
        if not 0 <= slack <= self.delta:
            raise InvalidInputError(f"'slack' must lie between 0 and 'delta'. Got {slack}.")
        self.slack = float(slack)
        self.spent_budget: list[tuple[float, float]] = []
        self._lock = threading.RLock()
        for spent in spent_budget or ():
            self.spend(*spent)

    def __len__(self) -> int:
        return len(self.spent_budget)

    def __repr__(self) -> str:
        given = {"epsilon": math.inf, "delta": 1.0, "slack": 0.0}
        told = [
            f"{k}={getattr(self, k)!r}" for k, usual in given.items() if getattr(self, k) != usual
        ]
        told += [f"spent_budget={self.spent_budget}"] if self.spent_budget else []
        return f"BudgetAccountant({', '.join(told)})"

    def total(
        self,
        spent_budget: Sequence[tuple[float, float]] | None = None,
        slack: float | None = None,
    ) -> Budget:
        """Give the (epsilon, delta) of all spends together.

        Parameters
        ----------
        spent_budget : sequence of (epsilon, delta), optional
            Other spends than those of the accountant.
        slack : float, optional
            Another slack.

        Returns
        -------
        Budget
            The total.
        """
        spent = self.spent_budget if spent_budget is None else list(spent_budget)
        given_up = self.slack if slack is None else slack
        epsilon = math.fsum(each for each, _ in spent)
        pure = [PureEvent(each) for each, _ in spent if 0 < each < math.inf]
        if given_up and math.isfinite(epsilon) and pure:
            epsilon = min(epsilon, epsilon_spent(pure, given_up))
        return Budget(epsilon, _together([given_up, *(each for _, each in spent)]))

    def check(self, epsilon: float, delta: float) -> bool:
        """Raise unless (epsilon, delta) may be spent.

        Parameters
        ----------
        epsilon, delta : float
            What is asked for.

        Returns
        -------
        bool
            True.
        """
        asked = _checked(epsilon, delta)
        if not math.isinf(self.epsilon) or self.delta < 1:
            after = self.total([*self.spent_budget, asked])
            if after.epsilon > self.epsilon or after.delta > self.delta:
                left = self.remaining()
                raise BudgetExceededError(
                    f"Privacy spend of {Budget(*asked)} not permissible; will exceed the ceiling "
                    f"{Budget(self.epsilon, self.delta)}. Left for one query: {left}. Models keep "
                    "a delta of 1e-6 unless another one is given.",
                    spent=self.total().epsilon,
                    asked=asked[0],
                    left=left.epsilon,
                )
        return True

    def remaining(self, k: int = 1) -> Budget:
        """Give what each of `k` further queries may spend.

        Parameters
        ----------
        k : int, default=1
            Queries.

        Returns
        -------
        Budget
            Largest epsilon and delta of each.
        """
        if k < 1:
            raise InvalidInputError(f"'k' must be at least 1. Got {k}.")
        spent = self.total()
        kept = 0.0 if spent.delta >= 1 else (1 - self.delta) / (1 - spent.delta)
        delta = max(0.0, 1 - kept ** (1 / k))
        if math.isinf(self.epsilon):
            return Budget(math.inf, delta)
        if not self.slack:
            return Budget(max(0.0, self.epsilon - spent.epsilon) / k, delta)

        def fits(each: float) -> bool:
            return self.total([*self.spent_budget, *[(each, 0.0)] * k]).epsilon <= self.epsilon

        return Budget(_largest(fits, self.epsilon), delta)

    def spend(self, epsilon: float, delta: float) -> Self:
        """Check and write down a spend.

        Parameters
        ----------
        epsilon, delta : float
            What is spent.

        Returns
        -------
        BudgetAccountant
            Itself.
        """
        with self._lock:
            self.check(epsilon, delta)
            self.spent_budget.append(_checked(epsilon, delta))
        return self

    # The default accountant -------------------------------------------------------------------

    @staticmethod
    def load_default(accountant: BudgetAccountant | None) -> BudgetAccountant:
        """Give `accountant`, or the default one, which has no ceiling unless one was set.

        Parameters
        ----------
        accountant : BudgetAccountant or None
            What a call was given.

        Returns
        -------
        BudgetAccountant
            Who pays.
        """
        if accountant is None:
            if BudgetAccountant._default is None:
                BudgetAccountant._default = BudgetAccountant()
            return BudgetAccountant._default
        if not isinstance(accountant, BudgetAccountant):
            raise InvalidInputError("'accountant' must be a BudgetAccountant.")
        return accountant

    def set_default(self) -> Self:
        """Pay for all calls that are given no accountant.

        Returns
        -------
        BudgetAccountant
            Itself.
        """
        BudgetAccountant._default = self
        return self

    @staticmethod
    def pop_default() -> BudgetAccountant | None:
        """Take the default accountant away.

        Returns
        -------
        BudgetAccountant or None
            The one that was the default.
        """
        found, BudgetAccountant._default = BudgetAccountant._default, None
        return found

    def __enter__(self) -> Self:
        self._before = BudgetAccountant.pop_default()
        return self.set_default()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        BudgetAccountant._default = self._before


@dataclass(frozen=True)
class Bill:
    """Stands for a ledger in one call: its first charge spends the (epsilon, delta) of the call."""

    accountant: BudgetAccountant
    epsilon: float
    delta: float

    def charge(
        self, *events: Event, unit: str | None = None, relation: str | None = None
    ) -> Receipt:
        """Spend, and give the receipt that the draws need; raises before any noise is drawn.

        Parameters
        ----------
        *events : Event
            What will be drawn. The caller has seen to it that they keep (epsilon, delta).
        unit, relation : str, optional
            As in `DatasetBudget.charge`.

        Returns
        -------
        Receipt
            Good for one draw of each event.
        """
        self.accountant.spend(self.epsilon, self.delta)
        return Receipt(events, unit=unit, relation=relation)


def _checked(epsilon: Any, delta: Any) -> tuple[float, float]:
    pair = float(epsilon), float(delta)
    if not (pair[0] >= 0 and 0 <= pair[1] <= 1 and (pair[0] or pair[1])):
        raise InvalidInputError(
            f"'epsilon' must not be negative and 'delta' must lie in [0, 1]. Got {pair}."
        )
    return pair


def _together(deltas: Sequence[float]) -> float:
    """Give ``1 - prod(1 - delta)``; of a single one, that very number."""
    given = [float(each) for each in deltas if each]
    if len(given) < 2 or 1.0 in given:
        return max(given, default=0.0)
    return -math.expm1(math.fsum(math.log1p(-each) for each in given))


def _largest(fits: Callable[[float], bool], ceiling: float) -> float:
    """Give the largest number up to a ceiling that fits, rounded down."""
    low, high = 0.0, ceiling
    for _ in range(N_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if fits(middle) else (low, middle)
        if high - low <= 1e-6 * ceiling:
            break
    return low
