"""Additive models of tables: one curve per column, at private knots, and what they explain."""

from sfumato.additive.classifier import PrivateAdditiveClassifier
from sfumato.additive.explanation import ColumnCurve, Explanation, PairTerm
from sfumato.additive.plotting import plot_explanation
from sfumato.additive.regressor import PrivateAdditiveRegressor

__all__ = [
    "ColumnCurve",
    "Explanation",
    "PairTerm",
    "PrivateAdditiveClassifier",
    "PrivateAdditiveRegressor",
    "plot_explanation",
]
