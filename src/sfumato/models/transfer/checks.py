"""What a transfer refuses before anything is charged."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.core.arrays import to_host
from sfumato.core.constraints import check_parameters as check_table
from sfumato.exceptions import InvalidInputError
from sfumato.models.mappings import MembershipMapping
from sfumato.models.private import checked_rows
from sfumato.models.transfer.protection import TargetRelease
from sfumato.models.transfer.source import PlannedSource
from sfumato.models.transfer.target import require_start, sound_rows, target_codes
from sfumato.sums.maps import IntoUnitCube
from sfumato.tables.cells import check_count, checked_column

Array = NDArray[Any]
OF_A_SOURCE = (
    "classes_",
    "feature_names_in_",
    "n_features_in_",
    "n_source_features_",
    "source_bounds_",
)


@dataclass(frozen=True, eq=False)
class TransferSource:
    """One of several private sources: a table with a budget of its own.

    Parameters
    ----------
    X : array-like of shape (n_rows, n_features)
        Rows.
    y : array-like of shape (n_rows,)
        Labels.
    ledger : DatasetBudget, optional
        Who pays for it; by default nobody.
    epsilon, delta : float, optional
        Its budget; by default those of the estimator.
    """

    X: Any
    y: Any = None
    ledger: Any = None
    epsilon: float | None = None
    delta: float | None = None


def check_parameters(model: Any) -> None:
    """Check the settings of the target's side."""
    names = ("inducing_ratio", "kappa")
    check_table(model, {name: MembershipMapping.parameters[name] for name in names})
    for name in ("target_components", "n_layers"):
        check_count(name, getattr(model, name))
    for n_components in model.schedule:
        check_count("schedule", n_components)


def planned_sources(model: Any, source: Any, y_source: Any) -> list[PlannedSource]:
    """Check everything about the sources, and divide their budgets.

    model (PrivateTransferClassifier): Takes the public facts of the sources.
    source (array-like or sequence of TransferSource): One table, or several sources.
    y_source (array-like or None): Labels of one table.
    Returns: Nothing is charged yet.
    """
    several = _listed(source)
    if several is None:
        return [model.plan_source(source, y_source)]
    if y_source is not None or model.ledger is not None:
        raise InvalidInputError(
            "Each TransferSource has labels and a ledger of its own; leave 'y_source' and the "
            "estimator's ledger out."
        )
    planned: list[PlannedSource] = []
    for each in several:
        payer = copy.copy(model)
        payer.ledger = each.ledger
        payer.epsilon = model.epsilon if each.epsilon is None else each.epsilon
        payer.delta = model.delta if each.delta is None else each.delta
        planned.append(payer.plan_source(each.X, each.y))
    require_alike([each.payer for each in planned])
    for name in OF_A_SOURCE:
        if hasattr(planned[0].payer, name):
            setattr(model, name, getattr(planned[0].payer, name))
    return planned


def require_alike(parties: Sequence[Any]) -> None:
    """Refuse sources of other labels, features, bounds, unit or relation than the first."""
    first = parties[0]
    for each in parties[1:]:
        alike = (
            np.array_equal(each.classes_, first.classes_)
            and each.n_source_features_ == first.n_source_features_
            and each.source_bounds_ == first.source_bounds_
            and (each.unit, each.relation) == (first.unit, first.relation)
        )
        if not alike:
            raise InvalidInputError(
                "Several sources must have the same features, bounds, label set, unit and "
                "relation. Map the rows of each to common features before it is released."
            )


def _listed(source: Any) -> list[TransferSource] | None:
    """Return sources that were given as such; None for one table."""
    if isinstance(source, TransferSource):
        return [source]
    if not isinstance(source, list | tuple) or not source:
        return None
    found = [isinstance(each, TransferSource) for each in source]
    if any(found) and not all(found):
        raise InvalidInputError("Several sources are a list of TransferSource, and nothing else.")
    return list(source) if all(found) else None


def check_source(
    model: Any, source: Any, y_source: Any
) -> tuple[IntoUnitCube, Array, NDArray[np.intp]]:
    """Check everything about one source, before anything is charged."""
    bounds = model._validate_privacy_params()
    rows = model._check_rows(source)
    codes, model.classes_ = bounds.clip_labels(
        checked_column(model, model._target(source, y_source), len(rows))
    )
    if len(model.classes_) < 2:
        raise InvalidInputError("The label set has only one class; a classifier needs two.")
    model._warn_if_weak(len(rows))
    model.source_bounds_, model.n_source_features_ = bounds, rows.shape[1]
    return IntoUnitCube(bounds, rows.shape[1]), rows, codes


def check_target(
    model: Any, target: Any, y_target: Any
) -> tuple[Array, NDArray[np.intp], TargetRelease | None]:
    """Check everything about the target, before anything is charged.

    Returns its rows, the codes of its labels, -1 for none, and the plan of its own release.
    """
    given = to_host(target)
    if model.protect_target:  # an error about a value would tell that such a row is there
        rows = model._check_rows(given)
    else:
        rows = sound_rows(checked_rows(model, model._encoded(given), reset=True))
    if y_target is None:
        raise InvalidInputError(
            "'y_target' is missing: give one label for each target row, -1 where there is none."
        )
    labels = checked_column(model, to_host(y_target), len(rows))
    codes = target_codes(model.classes_, labels, may_be_unknown=model.protect_target)
    require_start(
        codes,
        len(model.classes_),
        (model.n_source_features_, model.n_features_in_),
        is_protected=model.protect_target,
        use_source=model.use_source,
        cross_fit=model.cross_fit,
    )
    planned = TargetRelease.plan(model, rows) if model.protect_target else None
    return rows, codes, planned
