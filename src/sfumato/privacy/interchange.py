"""Events in the words of dp-accounting, so that Sfumato composes with Opacus, JAX and Flower."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from dp_accounting import dp_event
from dp_accounting.privacy_accountant import NeighboringRelation

from sfumato.exceptions import UnsupportedEventError
from sfumato.privacy.bounded_range import concentration
from sfumato.privacy.events import (
    ApproximateEvent,
    BoundedRangeEvent,
    EntryEvent,
    Event,
    GaussianEvent,
    LaplaceEvent,
    NonPrivateEvent,
    ObjectivePerturbationEvent,
    PureEvent,
    RandomizedResponseEvent,
    RepeatedEvent,
    SelectionEvent,
    SubsampledGaussianEvent,
)
from sfumato.privacy.guarantee import Guarantee, Relation
from sfumato.privacy.objective import mean_chi


def neighboring_relation(relation: Relation) -> NeighboringRelation:
    """Return dp-accounting's word for our relation."""
    return NeighboringRelation[Relation(relation).name]


def to_dp_event(event: Event | Guarantee, relation: Relation | None = None) -> dp_event.DpEvent:
    """Return a `DpEvent` that costs at least as much as `event`, under the given relation.

    dp-accounting accepts Laplace noise only for adding or removing a record and randomised
    response only for replacing one. Where its exact event does not fit the relation, the zCDP
    form is given: any epsilon-DP release is ``epsilon²/2``-zCDP.

    Our noise multipliers are relative to the sensitivity under our relation. For the exact figure
    give Gaussian events to an accountant of ``REPLACE_SPECIAL`` or ``ADD_OR_REMOVE_ONE``. For
    ``REPLACE_ONE`` the library's loss-distribution accountant doubles the sensitivity itself and
    overstates the cost, while its Rényi accountant does not.

    Parameters
    ----------
    event : Event or Guarantee
        A release, or a guarantee: all of its releases together.
    relation : Relation, optional
        The neighbours for which the events were calibrated; by default those of the guarantee, or
        "replace_one".

    Returns
    -------
    dp_accounting.DpEvent
        An event for the accountants of that library.
    """
    if isinstance(event, Guarantee):
        if not event.events:
            raise UnsupportedEventError("The guarantee states no events, so none can be given.")
        own = event.relation if relation is None else Relation(relation)
        return dp_event.ComposedDpEvent([to_dp_event(each, own) for each in event.events])
    relation = Relation.REPLACE_ONE if relation is None else Relation(relation)
    if isinstance(event, RepeatedEvent):
        one = to_dp_event(event.event, relation)
        if isinstance(event.event, SubsampledGaussianEvent):  # thousands of steps
            return dp_event.SelfComposedDpEvent(one, event.count)
        # Repeated one by one: the library ignores the count of randomised response.
        return dp_event.ComposedDpEvent([one] * event.count)
    handler = _HANDLERS.get(type(event))
    if handler is None:
        raise UnsupportedEventError(f"A {event.kind!r} event has no form in dp-accounting.")
    return handler(event, relation)


def _gaussian(event: GaussianEvent, _: Relation) -> dp_event.DpEvent:
    return dp_event.GaussianDpEvent(event.noise_multiplier)


def _laplace(event: LaplaceEvent, relation: Relation) -> dp_event.DpEvent:
    if relation is Relation.REPLACE_ONE:
        return _pure_as_zcdp(event.epsilon)
    return dp_event.LaplaceDpEvent(1 / event.epsilon)


def _randomized_response(event: RandomizedResponseEvent, relation: Relation) -> dp_event.DpEvent:
    if relation is Relation.ADD_OR_REMOVE_ONE:
        return _pure_as_zcdp(event.epsilon)
    kept = math.exp(-event.epsilon)
    noise = event.n_labels * kept / (1 + (event.n_labels - 1) * kept)
    return dp_event.RandomizedResponseDpEvent(noise, event.n_labels)


def _pure(event: PureEvent, _: Relation) -> dp_event.DpEvent:
    return _pure_as_zcdp(event.epsilon)


def _bounded_range(event: BoundedRangeEvent, _: Relation) -> dp_event.DpEvent:
    return dp_event.ZCDpEvent(rho=concentration(event))


def _entry(event: EntryEvent, relation: Relation) -> dp_event.DpEvent:
    if event.delta:
        return _approximate(ApproximateEvent(event.epsilon, event.delta), relation)
    return _laplace(LaplaceEvent(event.epsilon), relation)


def _approximate(event: ApproximateEvent, _: Relation) -> dp_event.DpEvent:
    # No Rényi or zCDP figure follows from (epsilon, delta) alone: the library has to refuse it.
    return dp_event.UnsupportedDpEvent() if event.delta else _pure_as_zcdp(event.epsilon)


def _objective(event: ObjectivePerturbationEvent, _: Relation) -> dp_event.DpEvent:
    # chi_m is a 1-Lipschitz function of a Gaussian, so its moments grow at most like
    # exp(s E chi_m + s²/2): Rényi divergence <= kappa + a E chi_m + order a²/2 with a = 1/r.
    a = 1 / event.noise_multiplier
    return dp_event.ZCDpEvent(rho=a**2 / 2, xi=event.kappa + a * mean_chi(event.dimension))


def _subsampled(event: SubsampledGaussianEvent, relation: Relation) -> dp_event.DpEvent:
    if relation is not Relation.ADD_OR_REMOVE_ONE:
        return dp_event.UnsupportedDpEvent()
    return dp_event.PoissonSampledDpEvent(
        event.sampling_probability, dp_event.GaussianDpEvent(event.noise_multiplier)
    )


def _selection(event: SelectionEvent, relation: Relation) -> dp_event.DpEvent:
    # The library knows neither several kinds of runs, nor a cut, nor a Poisson law without 0.
    is_known = len(event.options) == 1 and event.max_runs is None and event.shape >= 0
    if not is_known or event.runs != "negative_binomial":
        return dp_event.UnsupportedDpEvent()
    run = [to_dp_event(each, relation) for each in event.options[0]]
    return dp_event.RepeatAndSelectDpEvent(
        dp_event.ComposedDpEvent(run), event.mean_runs, event.shape
    )


def _non_private(_: NonPrivateEvent, __: Relation) -> dp_event.DpEvent:
    return dp_event.NonPrivateDpEvent()


def _pure_as_zcdp(epsilon: float) -> dp_event.DpEvent:
    return dp_event.ZCDpEvent(rho=epsilon**2 / 2)


_HANDLERS: dict[type[Event], Callable[[Any, Relation], dp_event.DpEvent]] = {
    ApproximateEvent: _approximate,
    BoundedRangeEvent: _bounded_range,
    EntryEvent: _entry,
    GaussianEvent: _gaussian,
    LaplaceEvent: _laplace,
    NonPrivateEvent: _non_private,
    ObjectivePerturbationEvent: _objective,
    PureEvent: _pure,
    RandomizedResponseEvent: _randomized_response,
    SelectionEvent: _selection,
    SubsampledGaussianEvent: _subsampled,
}
