"""KAHM, kernel affine hull machines: the paper's systems under its names, printed and mended."""

from sfumato.models.hulls import (
    AffineHullClassifier as KAHMClassifier,
    DeepAffineHull as ConditionallyDeepKAHM,
    KernelAffineHull as KAHM,  # noqa: N814 - the paper's name
    WideAffineHull as WideConditionallyDeepKAHM,
)
from sfumato.papers.kahm.systems import (
    EntryFabricator,
    EntryHullClassifier,
    PrintedAffineHullClassifier,
    PrintedFabricator,
)
from sfumato.papers.kahm.theory import hull_bounds, smoothing_errors
