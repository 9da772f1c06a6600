"""Events in the words of dp-accounting, so that Sfumato composes with Opacus, JAX and Flower."""

from __future__ import annotations

from dp_accounting import dp_event

from sfumato.exceptions import UnsupportedEventError
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
from sfumato.privacy.renyi import concentration, mean_chi


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
    match event:
        case GaussianEvent():
            return dp_event.GaussianDpEvent(event.noise_multiplier)
        case LaplaceEvent() if relation is Relation.ADD_OR_REMOVE_ONE:
            return dp_event.LaplaceDpEvent(1 / event.epsilon)
        case EntryEvent(delta=0.0):
            return to_dp_event(LaplaceEvent(event.epsilon), relation)
        case LaplaceEvent() | PureEvent() | BoundedRangeEvent() | RandomizedResponseEvent():
            return dp_event.ZCDpEvent(rho=concentration(event))
        case ApproximateEvent(delta=0.0):
            return dp_event.ZCDpEvent(rho=event.epsilon**2 / 2)
        case ObjectivePerturbationEvent():
            # chi_m is a 1-Lipschitz function of a Gaussian, so its moments grow at most like
            # exp(s E chi_m + s²/2): Rényi divergence <= kappa + a E chi_m + order a²/2, a = 1/r.
            a = 1 / event.noise_multiplier
            return dp_event.ZCDpEvent(rho=a**2 / 2, xi=event.kappa + a * mean_chi(event.dimension))
        case SubsampledGaussianEvent() if relation is Relation.ADD_OR_REMOVE_ONE:
            return dp_event.PoissonSampledDpEvent(
                event.sampling_probability, dp_event.GaussianDpEvent(event.noise_multiplier)
            )
        # The library knows neither several kinds of runs, nor a cut, nor a Poisson law without 0.
        case SelectionEvent(options=[option], runs="negative_binomial", max_runs=None) if (
            event.shape >= 0
        ):
            run = dp_event.ComposedDpEvent([to_dp_event(each, relation) for each in option])
            return dp_event.RepeatAndSelectDpEvent(run, event.mean_runs, event.shape)
        case NonPrivateEvent():
            return dp_event.NonPrivateDpEvent()
        # No Rényi or zCDP figure follows from (epsilon, delta) alone: the library has to refuse it.
        case EntryEvent() | ApproximateEvent() | SubsampledGaussianEvent() | SelectionEvent():
            return dp_event.UnsupportedDpEvent()
    raise UnsupportedEventError(f"A {event.kind!r} event has no form in dp-accounting.")
