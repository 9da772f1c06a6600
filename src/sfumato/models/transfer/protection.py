"""A release of the target's own, for `protect_target=True`."""

from __future__ import annotations

import copy
import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from sfumato.ledger.dataset_budget import DatasetBudget
from sfumato.ledger.receipt import Receipt
from sfumato.mechanisms.base import Mechanism, require_epsilon
from sfumato.models.class_gaussians import GaussiansPlan, release_gaussians
from sfumato.models.transfer.gaussians import SourceGaussians, from_released
from sfumato.models.transfer.source import PlannedSource
from sfumato.privacy.composition import compose
from sfumato.privacy.guarantee import Guarantee
from sfumato.privacy.parallel import parallel
from sfumato.sums import ArrayRecords
from sfumato.sums.maps import IntoUnitBall, IntoUnitCube
from sfumato.tables.cells import check_n_components


@dataclass
class TargetRelease:
    """One Gaussian per class of the target, on its own budget.

    payer (PrivateTransferClassifier): A copy with the budget and the ledger of the target.
    releases: What will be released.
    receipt: Proof that it was paid for.
    """

    payer: Any
    releases: GaussiansPlan
    receipt: Receipt | None = None

    @classmethod
    def plan(cls, estimator: Any, rows: NDArray[np.float64]) -> Self:
        """Divide the target's budget, and ask its ledger, before anything is charged."""
        payer = copy.copy(estimator)
        payer.ledger = estimator.target_ledger
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
            n_components=check_n_components(payer.n_components, records.width),
            gaussians_per_class=1,
        )
        _ask(payer, *releases.mechanisms())
        return cls(payer, releases)

    def pay(self) -> Receipt:
        """Charge the target's ledger, once."""
        if self.receipt is None:
            self.receipt = self.payer._charge(*self.releases.mechanisms())  # [T10] charge all
        return self.receipt

    def run(
        self, rows: NDArray[np.float64], codes: NDArray[np.intp]
    ) -> tuple[SourceGaussians, Guarantee]:
        """Draw what was charged, or is now.

        rows: Target rows, clipped and scaled.
        codes: A label for each row that depends on that row, its own label and public values only:
            replacing one record changes one row and one code.
        """
        payer, receipt = self.payer, self.pay()
        inner = IntoUnitCube(payer.source_bounds_, rows.shape[1]).inner_bounds
        records = ArrayRecords(rows, codes, relation=payer.relation).mapped(
            IntoUnitBall(inner, rows.shape[1])
        )
        released = release_gaussians(records, self.releases, receipt).in_units_of(inner)
        return from_released(released), payer._guarantee(receipt)


def paid(sources: Sequence[PlannedSource], target: TargetRelease | None) -> list[Receipt]:
    """Charge all sources; with several, or a target, all ledgers are asked before any is charged.

    sources: What is released.
    target: The target's own release, which is charged first.
    Returns: One per source.
    """
    if target is not None or len(sources) > 1:
        _ask_together(sources)
    if target is not None:
        target.pay()
    return [each.payer._charge(*each.mechanisms) for each in sources]  # [T2] charge, then draw


def _ask_together(sources: Sequence[PlannedSource]) -> None:
    """Ask each ledger once for all that it would pay, so that none has paid for nothing."""
    for ledger in {id(each.payer.ledger): each.payer.ledger for each in sources}.values():
        asked = [each for each in sources if each.payer.ledger is ledger]
        _ask(asked[0].payer, *(one for each in asked for one in each.mechanisms))


def _ask(payer: Any, *mechanisms: Mechanism) -> None:
    """Raise if the payer's ledger would refuse these releases; nothing is charged."""
    if isinstance(payer.ledger, DatasetBudget):
        events = [mechanism.event() for mechanism in mechanisms]
        payer.ledger.ask(*events, unit=payer.unit, relation=payer.relation)


def for_any_source(guarantees: Sequence[Guarantee]) -> Guarantee:
    """State one promise for a record of any of several sources.

    guarantees: One per source.
    Returns: The weakest, on condition that a person has records in one source only.
    """
    if len(guarantees) == 1:
        return guarantees[0]
    total = functools.reduce(compose, guarantees)
    figures = ", ".join(map(_figures, guarantees))
    return parallel(  # [T11]
        *guarantees,
        condition=f"a person has records in one source only (the sources have {figures}); one with "
        f"records in all of them is promised {_figures(total)}",
    )


def for_either_record(source: Guarantee, target: Guarantee) -> Guarantee:
    """State one promise for a record of the source and for one of the target.

    A record is in one of the two sets, so the larger epsilon and delta hold for any one record.
    """
    return parallel(
        source,
        target,
        condition=f"the record is one of the source ({_figures(source)}) or one of the target "
        f"({_figures(target)}), not one of both: a person with records in both is promised "
        f"{_figures(compose(source, target))}",
    )


def _figures(guarantee: Guarantee) -> str:
    """Return epsilon and delta in few digits, never below what they are."""
    epsilon = math.inf if guarantee.epsilon is None else guarantee.epsilon
    shown = epsilon if math.isinf(epsilon) else math.ceil(epsilon * 1e4) / 1e4
    return f"epsilon {shown:.10g} at delta {guarantee.delta:.10g}"
