from collections.abc import Callable
from typing import Any

from sklearn.utils.estimator_checks import parametrize_with_checks

from sfumato.hulls import AffineHullClassifier, DeepAffineHull, KernelAffineHull, WideAffineHull

ESTIMATORS = [
    KernelAffineHull(),
    KernelAffineHull(dtype="float32"),
    DeepAffineHull(),
    WideAffineHull(branch_size=20),
    WideAffineHull(branch_size=20, partition="random"),
    AffineHullClassifier(branch_size=20),
    AffineHullClassifier(search="pruned", dtype="float32"),
]
# Check name -> reason, per class. Nothing fails.
EXPECTED_FAILURES: dict[str, dict[str, str]] = {}


@parametrize_with_checks(
    ESTIMATORS, expected_failed_checks=lambda e: EXPECTED_FAILURES.get(type(e).__name__, {})
)
def test_scikit_learn_contract(estimator: Any, check: Callable[[Any], None]) -> None:
    check(estimator)
