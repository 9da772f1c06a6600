"""Models with diffprivlib's names and signatures; each is a thin shell around one of ours."""

from sfumato.compat.diffprivlib.models.classifiers import (
    GaussianNB,
    LogisticRegression,
    RandomForestClassifier,
)
from sfumato.compat.diffprivlib.models.regression import LinearRegression
from sfumato.compat.diffprivlib.models.transformers import PCA, StandardScaler

__all__ = [
    "PCA",
    "GaussianNB",
    "LinearRegression",
    "LogisticRegression",
    "RandomForestClassifier",
    "StandardScaler",
]
