"""The membership-inference score of a model: equation (69) of the kernel affine hull machines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sfumato.audit.density_difference import DensityDifference, density_difference
from sfumato.audit.observed import choose_observation, observe

DIAGNOSTIC = (
    "A diagnostic measured on raw rows, not a guarantee and not for release: publishing it spends "
    "privacy that no budget has paid for."
)


@dataclass(frozen=True)
class MembershipScore:
    """Squared distance of the densities of a model's observation on members and on others.

    value, standard_error: The score and its standard error, in units of 1 / unit of the
        observation.
    observation: What the model shows of a row; see `sfumato.audit.observed`.
    difference: The fit behind it.
    members, non_members: The observations.
    """

    value: float
    standard_error: float
    observation: str
    difference: DensityDifference
    members: NDArray[np.float64]
    non_members: NDArray[np.float64]

    def __str__(self) -> str:
        return (
            f"Membership score {self.value:.4g} ± {self.standard_error:.2g} per unit of "
            f"{self.observation} ({len(self.members)} members, {len(self.non_members)} others). "
            f"The unit is 1/{self.observation}: data ten times as large score a tenth, so scores "
            f"of different models compare only on one scale. {DIAGNOSTIC}"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the figures as plain JSON values."""
        return {
            "value": self.value,
            "standard_error": self.standard_error,
            "observation": self.observation,
            "unit": f"1/{self.observation}",
            "n_members": len(self.members),
            "n_non_members": len(self.non_members),
            "note": DIAGNOSTIC,
        }


def membership_score(
    model: Any,
    members: ArrayLike,
    non_members: ArrayLike,
    *,
    y_members: ArrayLike | None = None,
    y_non_members: ArrayLike | None = None,
    observation: str | None = None,
    random_state: Any = 0,
) -> MembershipScore:
    r"""Return :math:`\int (f_{members}(r) - f_{others}(r))^2\,dr` of what a model shows of a row.

    Parameters
    ----------
    model : fitted estimator
        A hull classifier, for which r is the least distance to a hull (67), (68); or any
        classifier or density of scikit-learn.
    members, non_members : array-like of shape (n_rows, n_features)
        Rows that the model was fitted on, and rows of the same kind that it was not.
    y_members, y_non_members : array-like, optional
        Their labels.
    observation : {"distance", "loss", "margin", "confidence", "density"}, optional
        r; by default the first of them that the model offers.
    random_state : int, RandomState or None, default=0
        For centres and folds of the density difference.

    Returns
    -------
    MembershipScore
        The score, which is zero where members and others look alike.
    """
    with_labels = y_members is not None and y_non_members is not None
    observation = choose_observation(model, observation, with_labels=with_labels)
    inside = observe(model, members, y_members, observation)
    outside = observe(model, non_members, y_non_members, observation)
    found = density_difference(inside, outside, random_state=random_state)
    return MembershipScore(
        value=found.value,
        standard_error=found.standard_error,
        observation=observation,
        difference=found,
        members=inside,
        non_members=outside,
    )
