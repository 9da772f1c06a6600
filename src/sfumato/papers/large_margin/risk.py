"""How much noise raises the objective of the mended mechanism, at most.

The bounds of Theorems 2 and 3 rest on Lemma 2, the strong convexity of Huber's loss, which is
false. The mended objective is strongly convex by its term in ``||Φ||²``, and its bound is proved.
"""

from __future__ import annotations

import math

from scipy.stats import chi2

from sfumato.papers.large_margin.ellipsoids import MarginLimits, MarginLoss
from sfumato.papers.perturbed import ObjectiveBudget
from sfumato.privacy.guarantee import Relation


def printed_risk_bounds(
    d: int, n_classes: int, n_rows: int, *, epsilon: float, lam: float, failure: float = 0.05
) -> tuple[float, float]:
    """Return the bounds of Theorems 2 and 3 as printed, of the empirical and the true excess risk.

    They do not hold: Lemma 2 is false, and the proof of Theorem 3 takes twice the first bound.
    """
    norm = (d + 1) ** 2 / epsilon * math.log(d / failure)
    empirical = 8 * n_classes * norm**2 / lam
    of_trace = 4 * math.sqrt(d) * n_classes * norm / lam
    of_sample = 16 / (lam * n_rows) * (32 + math.log(1 / failure))
    return empirical, of_trace + empirical + of_sample


def excess_risk_bound(
    n_components: int,
    n_classes: int,
    n_rows: int,
    *,
    epsilon: float,
    delta: float,
    failure: float = 0.05,
    regularization: float | None = None,
    huber_width: float = 1.0,
    relation: str = "replace_one",
) -> float:
    """Return a bound on how much noise raises the mean objective of the mended mechanism.

    With ``J`` the sum of losses plus ``Λ/2 ||Φ||²``, the minimiser ``Φ'`` of ``J + <B, Φ>`` has
    ``∇J(Φ') = -B``, so that ``J(Φ') - min J <= ||B||² / (2 Λ)`` by strong convexity; ``||B||²`` is
    ``s²`` times chi-square with ``C (d+1)(d+2)/2`` degrees of freedom.

    Parameters
    ----------
    n_components, n_classes, n_rows : int
        Public facts: d, C and n.
    epsilon, delta : float
        The budget of `PrivateLargeMarginGaussianClassifier` without components.
    failure : float, default=0.05
        Probability with which the bound may be passed.
    regularization, huber_width, relation : float, float, str
        As given to the estimator.

    Returns
    -------
    float
        Bound on ``(J(Φ') - min J) / n``; nothing of it depends on a row.
    """
    order = n_components + 1
    limits = MarginLimits(MarginLoss(huber_width), n_classes, n_rows, order * (order + 1) // 2)
    mechanism = ObjectiveBudget(
        epsilon=epsilon,
        delta=delta,
        relation=Relation(relation),
        limits=limits,
        n_features=n_components,
        n_rows=n_rows,
        pca_share=0.0,
        regularization=regularization,
    ).objective()
    deviation = mechanism.sensitivity * mechanism.noise_multiplier
    longest = deviation**2 * float(chi2.ppf(1 - failure, limits.size))
    return longest / (2 * mechanism.strong_convexity * n_rows)
