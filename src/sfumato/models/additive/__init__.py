"""Additive models of tables: one curve per column, at private knots, and what they explain."""

from sfumato.models.additive.classifier import (
    PrivateAdditiveClassifier,
)
from sfumato.models.additive.explanation import (
    ColumnCurve,
    Explanation,
    PairTerm,
)
from sfumato.models.additive.plotting import plot_explanation
from sfumato.models.additive.regressor import PrivateAdditiveRegressor
