"""One call for an audit: everything that can be said of a model or a release."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sfumato.audit.attack import membership_attack
from sfumato.audit.membership import membership_score
from sfumato.audit.observed import choose_observation
from sfumato.audit.reidentification import reidentification
from sfumato.audit.report import AuditReport
from sfumato.audit.two_point import two_point
from sfumato.exceptions import InvalidInputError
from sfumato.models.base import PrivateEstimator


def audit(
    model_or_release: Any,
    members: ArrayLike | None = None,
    non_members: ArrayLike | None = None,
    *,
    y_members: ArrayLike | None = None,
    y_non_members: ArrayLike | None = None,
    title: str | None = None,
    observation: str | None = None,
    **two_point_options: Any,
) -> AuditReport:
    """Audit a model or a released table.

    Parameters
    ----------
    model_or_release : estimator or array-like of shape (n_released, n_features)
        A private estimator, fitted or not, gets a lower bound on its epsilon from two neighbours
        that are made from its bounds: no data are needed for it. A fitted model is attacked by its
        distances, losses or margins if members and others are given. An array is taken for
        released rows and matched with the members.
    members, non_members : array-like of shape (n_rows, n_features), optional
        Rows that went into it, and rows of the same kind that did not.
    y_members, y_non_members : array-like, optional
        Their labels.
    title : str, optional
        Of the report.
    observation : str, optional
        What the attacks see, see `membership_attack`.
    **two_point_options
        `n_runs`, `seconds`, `confidence`, `X`, `y`, `edge`, `n_jobs`, `verbose` of the lower
        bound; see `sfumato.audit.two_point`.

    Returns
    -------
    AuditReport
        Print it, or write it as .html, .md or .json. Parts that were measured on members are
        diagnostics on raw rows and not for release.

    Examples
    --------
    >>> from sfumato import Bounds, PrivatePCA
    >>> from sfumato.audit import audit
    >>> found = audit(PrivatePCA(1, epsilon=1.0, bounds=Bounds(norm=1.0)), n_runs=200)
    >>> found.consistent
    True
    """
    if not hasattr(model_or_release, "get_params"):
        return _audit_release(model_or_release, members, non_members, title)
    name = type(model_or_release).__name__
    parts: dict[str, Any] = {}
    if isinstance(model_or_release, PrivateEstimator):
        parts["two_point"] = two_point(model_or_release, **two_point_options)
        fitted = getattr(model_or_release, "guarantee_", None)
        parts["guarantee"] = parts["two_point"].guarantee if fitted is None else fitted
    if members is not None and non_members is not None:
        labels: dict[str, Any] = {"y_members": y_members, "y_non_members": y_non_members}
        with_labels = y_members is not None and y_non_members is not None
        observation = choose_observation(model_or_release, observation, with_labels=with_labels)
        for part, attack in (("score", membership_score), ("attack", membership_attack)):
            parts[part] = attack(
                model_or_release, members, non_members, observation=observation, **labels
            )
    if not parts:
        raise InvalidInputError(
            f"{name} has no guarantee: give 'members' and 'non_members' to measure an attack."
        )
    return AuditReport(title or f"Audit of {name}", **parts)


def _audit_release(released: Any, members: Any, non_members: Any, title: str | None) -> AuditReport:
    if members is None:
        raise InvalidInputError("Released rows are matched with 'members': give the rows.")
    made, rows = np.asarray(released), np.asarray(members)
    matches = reidentification(rows, made, non_members=non_members)
    return AuditReport(title or "Audit of released rows", matches=matches)
