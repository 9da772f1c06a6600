"""The models that a plan knows, by name: those that fit a table with a label, or with a number."""

from __future__ import annotations

from typing import Any

from sfumato.additive import PrivateAdditiveClassifier, PrivateAdditiveRegressor
from sfumato.fabrication.hull_classifier import PrivateAffineHullClassifier
from sfumato.functions import PrivateKernelClassifier, PrivateKernelRegressor
from sfumato.linear import PrivateLinearClassifier, PrivateLinearRegressor
from sfumato.moments import PrivateGaussianClassifier

__all__ = ["CLASSIFIERS", "REGRESSORS"]

CLASSIFIERS: dict[str, Any] = {
    "linear": PrivateLinearClassifier,
    "gaussian": PrivateGaussianClassifier,
    "additive": PrivateAdditiveClassifier,
    "kernel": PrivateKernelClassifier,
    "hull": PrivateAffineHullClassifier,
}
REGRESSORS: dict[str, Any] = {
    "linear": PrivateLinearRegressor,
    "additive": PrivateAdditiveRegressor,
    "kernel": PrivateKernelRegressor,
}
