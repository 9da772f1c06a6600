"""Large-margin Gaussian classifiers: without privacy, as printed (refuted), mended; bounds."""

from sfumato.papers.large_margin.classifier import LargeMarginGaussianClassifier
from sfumato.papers.large_margin.printed import PrintedLargeMarginClassifier
from sfumato.papers.large_margin.private import PrivateLargeMarginGaussianClassifier
from sfumato.papers.large_margin.risk import excess_risk_bound
