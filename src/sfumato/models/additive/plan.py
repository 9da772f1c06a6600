"""From a budget to the releases of an additive model; everything here is public."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Self

from sfumato.mechanisms.base import Mechanism, Repeated
from sfumato.mechanisms.exponential import QuantileMechanism
from sfumato.mechanisms.gaussian import GaussianMechanism
from sfumato.models.additive.columns import PublicColumns
from sfumato.models.additive.knots import PlaceCounts, PlaceTree
from sfumato.models.additive.pairs import HatSums, pair_tables
from sfumato.privacy.calibrate import gaussian_mu_beside
from sfumato.privacy.gaussian import mu_from_budget
from sfumato.sums.records import Records
from sfumato.sums.statistics import ClassCounts, SecondMoment, Statistic

SCORE_LEVELS = 3  # octiles of the scores


@dataclass(frozen=True)
class Shares:
    """How ``mu²`` is divided; the gradients get what is left.

    knots: Of the quantiles; 0 where knots are public.
    moment: Of the second moment of the hats.
    count: Of the number of records, or of the size of each class; 0 where it is not needed.
    calibration: Of the last look at scores beside targets or labels.
    scores: Of the quantiles of the scores before that look.
    pairs: Of the choice of pairs.
    """

    knots: float
    moment: float
    count: float
    calibration: float = 0.0
    scores: float = 0.0
    pairs: float = 0.0

    @property
    def gradients(self) -> float:
        """What is left of the Gaussian part."""
        return 1 - self.moment - self.count - self.calibration - self.pairs


@dataclass(frozen=True)
class KnotRule:
    """Where knots lie, by public and released numbers alone.

    share: Share of mu² for the quantiles; 0 where knots are public.
    n_levels, public_levels: How often ranges are halved, by quantiles and by public places.
    enough_rows: Number of records from which on knots are private; where their number is secret, it
        is released first.
    """

    share: float
    n_levels: int
    public_levels: int
    enough_rows: float = 0.0

    @property
    def max_levels(self) -> int:
        """Of the widest encoding that the rule can choose."""
        return max(self.n_levels if self.share else 0, self.public_levels if self.may_differ else 0)

    @property
    def may_differ(self) -> bool:
        """Whether public knots can be chosen."""
        return not self.share or self.enough_rows > 0

    def is_private(self, n_rows: float) -> bool:
        """Return whether knots lie at released quantiles."""
        return self.share > 0 and n_rows >= self.enough_rows


@dataclass(frozen=True)
class PairRule:
    """Whether pairs of columns are looked at.

    orders, crossed: Shares of the Gaussian part for the order of categories and for the counts of
        pairs; 0 where there are no pairs.
    most: The largest number of pairs that are kept.
    enough_rows: Number of records from which on pairs are used, where their number is released
        first.
    """

    orders: float = 0.0
    crossed: float = 0.0
    most: int = 0
    enough_rows: float = 0.0


@dataclass(frozen=True)
class AdditivePlan:
    """The releases of a fit, in the order of the draws.

    `quantiles` is None where no column is cut, `counter` where no count is needed, `orders` and
    `crossed` where there are no pairs, `scores` for a classifier. A target stands after the
    columns: its place is their number.
    """

    columns: PublicColumns
    cut: tuple[int, ...]
    knots: KnotRule
    pairs: PairRule
    n_classes: int
    max_gradient_norm: float
    n_steps: int
    quantiles: QuantileMechanism | GaussianMechanism | None
    orders: GaussianMechanism | None
    crossed: GaussianMechanism | None
    moment: GaussianMechanism
    counter: GaussianMechanism | None
    gradients: GaussianMechanism
    scores: QuantileMechanism | GaussianMechanism | None
    calibration: GaussianMechanism | None

    @classmethod
    def of(
        cls,
        records: Records,
        columns: PublicColumns,
        gradient: Statistic,
        shares: Shares,
        *,
        cut: tuple[int, ...],
        knots: KnotRule,
        pairs: PairRule,
        n_classes: int,
        n_steps: int,
        last_look: Statistic,
        epsilon: float,
        delta: float,
    ) -> Self:
        """Divide the budget."""
        quantiles = _quantiles(records, cut, shares.knots, knots.n_levels, epsilon, delta)
        scored = (0,) if shares.scores else ()
        scores = _quantiles(records, scored, shares.scores, SCORE_LEVELS, epsilon, delta)
        whole = math.inf
        if math.isfinite(epsilon):
            cuts = [each for each in (quantiles, scores) if each is not None]
            beside = tuple(each.event() for each in cuts)
            whole = gaussian_mu_beside(
                beside, epsilon=epsilon, delta=delta, relation=records.relation
            )

        def gaussian(statistic: Statistic, share: float) -> GaussianMechanism:
            mechanism = GaussianMechanism.from_mu(
                sensitivity=records.sensitivity(statistic), mu=whole * math.sqrt(share)
            )
            return mechanism.for_size(statistic.size)

        width = columns.width(2**knots.max_levels + 1)
        sums = HatSums(max(2, n_classes), width, has_target=n_classes == 1)
        tables = pair_tables(len(columns), n_classes)
        shares = replace(shares, pairs=pairs.orders + pairs.crossed)
        return cls(
            columns,
            cut,
            knots,
            pairs,
            n_classes,
            float(getattr(gradient, "max_gradient_norm", 0.0)),
            n_steps,
            quantiles,
            gaussian(sums, pairs.orders) if pairs.orders else None,
            gaussian(tables, pairs.crossed) if pairs.crossed else None,
            gaussian(SecondMoment(width + pairs.most), shares.moment),
            gaussian(ClassCounts(n_classes), shares.count) if shares.count else None,
            gaussian(gradient, shares.gradients / n_steps),
            scores,
            gaussian(last_look, shares.calibration) if shares.calibration else None,
        )

    def mechanisms(self) -> list[Mechanism]:
        """List those in use, as they are paid for."""
        repeated = Repeated(self.gradients, self.n_steps)
        first = (self.counter, self.quantiles, self.orders, self.crossed, self.moment)
        listed = (*first, repeated, self.scores, self.calibration)
        return [each for each in listed if each is not None]


def _quantiles(
    records: Records,
    cut: tuple[int, ...],
    share: float,
    n_levels: int,
    epsilon: float,
    delta: float,
) -> QuantileMechanism | GaussianMechanism | None:
    """The cuts of some columns, whose concentration is that of a share of mu²."""
    if not cut:
        return None
    if not records.has_exact_sums:
        mu = mu_from_budget(epsilon, delta) * math.sqrt(share)
        tree = PlaceTree(cut)
        moved = records.sensitivity(tree)
        return GaussianMechanism.from_mu(sensitivity=moved, mu=mu).for_size(tree.size)
    each = math.inf
    if math.isfinite(epsilon):  # bounded range e has the concentration of mu = e/2
        mu = mu_from_budget(epsilon, delta) * math.sqrt(share)
        each = 2 * mu / math.sqrt(len(cut) * n_levels)
    return QuantileMechanism(
        records.sensitivity(PlaceCounts(cut), "part"), each, len(cut), n_levels
    )
