"""A release of the target's own, for `protect_target=True`."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from sfumato.accounting.composition import compose, epsilon_spent
from sfumato.accounting.dataset_budget import DatasetBudget
from sfumato.accounting.parallel import parallel
from sfumato.accounting.receipt import refuse_other_words
from sfumato.exceptions import BudgetExceededError
from sfumato.guarantee import Guarantee, Unit
from sfumato.hulls.public_rules import PublicScale
from sfumato.mappings.gaussians import SourceGaussians, from_released
from sfumato.mechanisms.base import require_epsilon
from sfumato.moments.pca import check_n_components
from sfumato.moments.record_engine import GaussiansPlan, release_gaussians
from sfumato.sums import ArrayRecords
from sfumato.sums.maps import IntoUnitBall

__all__ = ["TargetRelease", "for_either_record"]


@dataclass(frozen=True)
class TargetRelease:
    """One Gaussian a class of the target, on its own budget.

    Parameters
    ----------
    payer : PrivateTransferClassifier
        A copy with the unit, the budget and the ledger of the target.
    releases : GaussiansPlan
        What will be released.
    """

    payer: Any
    releases: GaussiansPlan

    @classmethod
    def plan(cls, estimator: Any, rows: NDArray[np.float64]) -> Self:
        """Divide the target's budget, and ask its ledger, before the source pays for anything."""
        payer = copy.copy(estimator)
        payer.unit, payer.ledger = Unit.RECORD, estimator.target_ledger
        payer.epsilon = estimator.epsilon if (own := estimator.target_epsilon) is None else own
        payer.delta = estimator.delta if (own := estimator.target_delta) is None else own
        require_epsilon(payer.epsilon)
        payer._warn_if_weak(len(rows))
        records = ArrayRecords(rows, relation=payer.relation)
        releases = GaussiansPlan.of(  # [T9] the target's budget divided
            records,
            epsilon=payer.epsilon,
            delta=payer.delta,
            n_classes=len(payer.classes_),
            n_components=check_n_components(payer.pca_components, records.width),
            gaussians_per_class=1,
        )
        planned = cls(payer, releases)
        planned._refuse_what_cannot_be_paid()
        return planned

    def run(
        self, rows: NDArray[np.float64], codes: NDArray[np.intp]
    ) -> tuple[SourceGaussians, Guarantee]:
        """Charge, then draw.

        Parameters
        ----------
        rows : ndarray
            Target rows, clipped and scaled.
        codes : ndarray
            A label for each row that depends on that row, its own label and public values only:
            replacing one record changes one row and one code.
        """
        payer = self.payer
        receipt = payer._prepay(*self.releases.mechanisms())  # [T10] charge all, then draw
        inner = PublicScale(payer.source_bounds_, rows.shape[1]).inner_bounds
        records = ArrayRecords(rows, codes, relation=payer.relation).mapped(
            IntoUnitBall(inner, rows.shape[1])
        )
        released = release_gaussians(records, self.releases, receipt).in_units_of(inner)
        return from_released(released), payer._guarantee(receipt)

    def _refuse_what_cannot_be_paid(self) -> None:
        ledger = self.payer.ledger
        if not isinstance(ledger, DatasetBudget):
            return
        total, relation = ledger.total, self.payer.relation
        refuse_other_words(
            f"budget of '{ledger.name}'", total.unit, total.relation, Unit.RECORD, relation
        )
        events = [mechanism.event() for mechanism in self.releases.mechanisms()]
        after = epsilon_spent([*ledger.events(), *events], total.delta, total.relation)
        if after > total.epsilon:
            raise BudgetExceededError(
                f"The budget of '{ledger.name}', which pays for the target, refuses its release: "
                f"together with what it has paid this would cost epsilon {after:.6g} of "
                f"{total.epsilon:.6g}. Nothing was charged, neither to the source nor the target.",
                spent=ledger.spent(),
                asked=epsilon_spent(events, total.delta, total.relation),
                left=ledger.left(),
            )


def for_either_record(source: Guarantee, target: Guarantee) -> Guarantee:
    """State one promise for a record of the source and for one of the target.

    A record is in one of the two sets, so the larger epsilon and delta hold for any one record.
    Promises of another unit or relation have no larger one: the source's is stated then, on
    condition that it is the source that changes.
    """
    if (source.unit, source.relation) != (target.unit, target.relation):
        return source.only_if(
            f"the changed record is one of the source; a record of the target ({target.unit}, "
            f"{target.relation}) is promised {_figures(target)}"
        )
    return parallel(
        source,
        target,
        condition=f"the record is one of the source ({_figures(source)}) or one of the target "
        f"({_figures(target)}), not one of both: a person with records in both is promised "
        f"{_figures(compose(source, target))}",
    )


def _figures(guarantee: Guarantee) -> str:
    """Give epsilon and delta in few digits, never below what they are."""
    epsilon = math.inf if guarantee.epsilon is None else guarantee.epsilon
    shown = epsilon if math.isinf(epsilon) else math.ceil(epsilon * 1e4) / 1e4
    return f"epsilon {shown:.10g} at delta {guarantee.delta:.10g}"
