"""Parallel composition: releases about disjoint sets of records."""

from __future__ import annotations

import math
from dataclasses import replace

from sfumato.exceptions import InvalidInputError
from sfumato.guarantee import Guarantee, Status

__all__ = ["parallel"]


def parallel(*guarantees: Guarantee, condition: str) -> Guarantee:
    """Give the guarantee of releases about disjoint sets of records: the weakest of them.

    A record enters the releases about its own set, and the others do not depend on it: epsilon and
    delta are the largest of all.

    Parameters
    ----------
    *guarantees : Guarantee
        Promises of the same unit and relation.
    condition : str
        Why a record is in one of the sets only; added where there are several.

    Returns
    -------
    Guarantee
        With the events of the weakest; conditional, where there are several and all are proved.
    """
    if not guarantees:
        raise InvalidInputError("Nothing to compose: give at least one guarantee.")
    weakest = guarantees[0]
    for each in guarantees[1:]:
        both = weakest + each  # checks unit and relation, gathers conditions
        later = max(weakest, each, key=_figure)
        weakest = replace(
            later,
            delta=max(weakest.delta, each.delta),
            status=both.status,
            epsilon=None if both.status is Status.REFUTED else later.epsilon,
            public=both.public,
            conditions=both.conditions,
        )
    return weakest if len(guarantees) == 1 else weakest.only_if(condition)


def _figure(guarantee: Guarantee) -> float:
    return math.inf if guarantee.epsilon is None else guarantee.epsilon
