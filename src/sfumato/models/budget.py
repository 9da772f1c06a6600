"""The budget of one fit: declare releases with their shares, charge them together, then draw."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

from sfumato.exceptions import BudgetExceededError, InvalidInputError
from sfumato.ledger.receipt import Receipt, prepay
from sfumato.mechanisms.base import noise_status
from sfumato.mechanisms.exponential import QuantileMechanism, RankMechanism
from sfumato.mechanisms.gaussian import SLACK, GaussianMechanism, GaussianProcessMechanism
from sfumato.mechanisms.laplace import DiscreteLaplaceMechanism, LaplaceMechanism
from sfumato.privacy.composition import epsilon_spent, gaussian_mu_beside
from sfumato.privacy.events import RepeatedEvent
from sfumato.privacy.gaussian import mu_from_budget
from sfumato.privacy.guarantee import Guarantee, Relation, Unit
from sfumato.sums.records import Records
from sfumato.sums.statistics import Counts, PlaceCounts, PlaceTree, Statistic, cuts_by_counts


@dataclass(frozen=True)
class Law:
    """A law of noise: the mechanism of a sensitivity and of one step's parameter, mu or epsilon.

    norm: The norm of the sensitivity.
    per_mu: The parameter whose concentration is that of mu = 1, rho = 1/2: epsilon 1, or a bounded
        range of 2.
    """

    mechanism: Callable[[float, float], Any]
    norm: int | str = 2
    per_mu: float = 1.0
    is_gaussian: bool = False


GAUSSIAN = Law(GaussianMechanism.from_mu, is_gaussian=True)
PROCESS = Law(lambda s, mu: GaussianProcessMechanism(s * (1 + SLACK), 1 / mu), is_gaussian=True)
LAPLACE = Law(LaplaceMechanism, 1)
DISCRETE = Law(DiscreteLaplaceMechanism, 1)


@dataclass
class Release:
    """A declared release of `statistic`, drawn `count` times, each of `steps` steps of its law.

    share: Of mu², or of epsilon where no release is Gaussian; None takes what the others leave.
    levels: How often columns are halved by noisy counts of places.
    """

    law: Law
    statistic: Statistic
    share: float | None
    count: int = 1
    steps: int = 1
    mechanism: Any = None
    event: Any = None  # what is paid
    levels: int = 0


@dataclass
class Budget:
    """(epsilon, delta) of one fit.

    Where some release is Gaussian, shares are of mu²: the other releases take theirs first, by
    equal concentration (rho = mu²/2), and the Gaussian ones share the mu that is left.
    Where none is, shares are of epsilon, which adds up, and delta is not used.

    facts: What the guarantee lists as public.
    paid: What an earlier fit has paid for and not drawn, because its engine failed.
    """

    epsilon: float
    delta: float
    records: Records
    ledger: Any = None
    unit: str = "record"
    owner: str = "The fit"
    facts: tuple[str, ...] = ()
    paid: Receipt | None = None
    releases: list[Release] = field(default_factory=list)
    receipt: Receipt | None = None

    def gaussian(self, statistic: Statistic, share: float | None = None, count: int = 1) -> Release:
        """Declare a sum with Gaussian noise, drawn `count` times."""
        return self._declare(Release(GAUSSIAN, statistic, share, count))

    def process(self, statistic: Statistic) -> Release:
        """Declare coordinates of a function with Gaussian process noise."""
        return self._declare(Release(PROCESS, statistic, None))

    def laplace(self, statistic: Statistic, share: float | None = None) -> Release:
        """Declare a sum with Laplace noise."""
        return self._declare(Release(LAPLACE, statistic, share))

    def counts(self, statistic: Counts) -> Release:
        """Declare counts with Laplace noise, of whole numbers where the counts are whole."""
        person = self.records.person
        is_whole = (person is None or not person.averages) and self.records.has_exact_sums
        return self._declare(Release(DISCRETE if is_whole else LAPLACE, statistic, None))

    def ranks(
        self,
        counts: Counts,
        n_groups: int,
        ranks: tuple[tuple[float, float], ...],
        share: float | None = None,
        logs: tuple[tuple[float, ...], ...] = (),
    ) -> Release:
        """Declare cells that hold wanted ranks of groups; see `RankMechanism`."""
        is_paired = n_groups == 1 and self.records.relation is Relation.REPLACE_ONE
        make = lambda s, e: RankMechanism(s, e, n_groups, ranks, is_paired, logs)  # noqa: E731
        law = Law(make, 1, per_mu=2.0)
        return self._declare(Release(law, counts, share, steps=len(ranks)))

    def quantiles(self, counts: PlaceCounts, n_levels: int, share: float | None = None) -> Release:
        """Declare cuts of each column of `counts` into ``2**n_levels`` parts of equal counts.

        Where exact counts exist nowhere, as among parties, noisy ones are released and cut.
        """
        if not self.records.has_exact_sums:  # [N5]
            tree = Law(GAUSSIAN.mechanism)
            return self._declare(Release(tree, PlaceTree(counts.columns), share, levels=n_levels))
        n = counts.shape[0]  # [N4] one pass of exact counts, then all cuts
        law = Law(lambda s, e: QuantileMechanism(s, e, n, n_levels), "part", per_mu=2.0)
        return self._declare(Release(law, counts, share, steps=n * n_levels))

    def _declare(self, release: Release) -> Release:
        self.releases.append(release)
        return release

    def charge(self, *events: Any) -> Receipt:
        """Charge events that cost no more than the budget; nothing is drawn yet.

        By default those of the declared releases, which are calibrated and priced jointly.
        """
        events = events or self.calibrate()
        relation = self.records.relation
        cost = epsilon_spent(events, self.delta, relation, enough=self.epsilon)
        if cost > self.epsilon:
            raise BudgetExceededError(
                f"{self.owner} needs epsilon={cost:g}, but epsilon={self.epsilon:g} was given. "
                "Nothing was charged.",
                spent=0.0,
                asked=cost,
                left=self.epsilon,
            )
        paid = self.paid
        covers = (
            paid is not None
            and (paid.events, paid.unit, paid.relation) == (events, Unit(self.unit), relation)
            and paid.is_untouched
            and paid.is_of_this_process
        )
        if paid is None or not covers:
            paid = prepay(self.ledger, *events, unit=self.unit, relation=relation)
        self.receipt = paid
        return paid

    def calibrate(self) -> tuple[Any, ...]:
        """Choose the mechanism of every declared release; return what is to be paid."""
        others: list[tuple[Release, float]] = []
        sums: list[tuple[Release, float]] = []
        taken, n_open = [0.0, 0.0], [0, 0]  # of the others, and of Gaussian sums
        for r in self.releases:
            is_sum = r.law.is_gaussian
            moved = self.records.sensitivity(r.statistic, r.law.norm)
            (sums if is_sum else others).append((r, moved))
            taken[is_sum] += r.share or 0.0
            n_open[is_sum] += r.share is None
        whole = self.epsilon
        if sums and math.isfinite(self.epsilon):
            whole = mu_from_budget(self.epsilon, self.delta)
        for kind, found in enumerate((others, sums)):
            rest = 1.0 - taken[kind]  # divided evenly by those that name no share
            if rest < -1e-12 or (n_open[kind] and rest <= 0):  # shares may round
                raise InvalidInputError(
                    "The shares of the releases add up to more than the budget."
                )
            if kind and sums and others and math.isfinite(self.epsilon):
                whole = gaussian_mu_beside(  # [B3] mu that is left
                    tuple(r.event for r, _ in others),
                    epsilon=self.epsilon,
                    delta=self.delta,
                    relation=self.records.relation,
                )
            for r, moved in found:
                share = rest / n_open[kind] if r.share is None else r.share
                n_steps = r.count * r.steps
                if kind:  # [B4] squares of mu add up, however they are divided
                    each = whole * math.sqrt(share / r.count)
                elif sums:  # [B1] the concentration of this share of mu²
                    each = r.law.per_mu * (whole * math.sqrt(share)) / math.sqrt(n_steps)
                else:  # [B2] epsilons add up
                    each = whole * share / n_steps
                r.mechanism = r.law.mechanism(moved, each)
                # What cannot be drawn is refused before the charge.
                getattr(r.mechanism, "for_size", lambda size: size)(r.statistic.size)
                event = r.mechanism.event()
                r.event = event if r.count == 1 else RepeatedEvent(event, r.count)
        return tuple(map(attrgetter("event"), self.releases))

    def draw(
        self,
        release: Release,
        records: Records | None = None,
        statistic: Statistic | None = None,
        *,
        on_device: bool = False,
    ) -> Any:
        """Return one draw; records may be mapped, and the statistic be at other weights."""
        if self.receipt is None:
            raise InvalidInputError("Nothing was charged: charge first, then draw.")
        source = self.records if records is None else records
        there = {"on_device": True} if on_device else {}
        asked = statistic or release.statistic
        drawn = source.release(asked, release.mechanism, self.receipt, **there)
        return cuts_by_counts(drawn, release.levels) if release.levels else drawn

    def noise(self, release: Release) -> float:
        """Return the standard deviation of the noise on a drawn number."""
        return math.sqrt(self.records.variance_of(release.mechanism))

    def guarantee(self, *public: str) -> Guarantee:
        """Return what is proved about all draws together."""
        receipt = self.receipt
        if receipt is None:
            raise InvalidInputError("There is no guarantee before the charge: charge first.")
        spent = epsilon_spent(receipt.events, self.delta, self.records.relation)
        # Calibration stops a hair short of the budget; the round figure is true as well.
        is_whole = self.epsilon * (1 - 1e-6) <= spent <= self.epsilon
        return Guarantee(
            epsilon=self.epsilon if is_whole else spent,
            delta=self.delta,
            unit=Unit(self.unit),
            relation=Relation(self.records.relation),
            public=(*self.facts, *public),
            status=noise_status(),
            events=receipt.events,
            charges=receipt.charges,
        ).only_if(*receipt.conditions)
