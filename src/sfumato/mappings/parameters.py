"""The parameters that the autoencoders share, checked."""

from __future__ import annotations

from numbers import Real
from typing import Any

from sfumato.exceptions import InvalidInputError
from sfumato.hulls.rows import check_choice, check_count

__all__ = ["PRECISIONS", "check_kappa", "check_parameters", "check_ratio"]

PRECISIONS = ("float64", "float32")


def check_parameters(estimator: Any) -> dict[str, Any]:
    """Give the arguments of `fit_branch` that an estimator holds."""
    return {
        "n_components": check_count("n_components", estimator.n_components),
        "n_layers": check_count("n_layers", estimator.n_layers),
        "inducing_ratio": check_ratio(estimator.inducing_ratio),
        "kappa": check_kappa(estimator.kappa),
        "center": bool(estimator.center),
        "dtype": check_choice("dtype", estimator.dtype, PRECISIONS),
    }


def check_ratio(value: Any) -> float:
    """Give r_max, a share of the rows."""
    if not isinstance(value, Real) or not 0 < float(value) <= 1:
        raise InvalidInputError(f"'inducing_ratio' must lie in (0, 1]. Got {value!r} instead.")
    return float(value)


def check_kappa(value: Any) -> float:
    """Give the least tau(M, 1)."""
    if not isinstance(value, Real) or not 0 < float(value) < float("inf"):
        raise InvalidInputError(f"'kappa' must be positive and finite. Got {value!r} instead.")
    return float(value)
