"""From plain values back to a feature map."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sfumato.exceptions import InvalidInputError
from sfumato.functions.features import FeatureMap, KnotFeatures, TaylorFeatures
from sfumato.functions.fourier import FourierFeatures
from sfumato.functions.periodic import PeriodicFeatures

__all__ = ["features_from_dict"]

_MAPS: dict[str, Any] = {
    kind.kind: kind for kind in (FourierFeatures, KnotFeatures, PeriodicFeatures, TaylorFeatures)
}


def features_from_dict(record: Mapping[str, Any]) -> FeatureMap:
    """Rebuild a feature map from its `to_dict`.

    Parameters
    ----------
    record : mapping
        What `to_dict` gave.

    Returns
    -------
    FeatureMap
        The map.
    """
    kind = record.get("kind")
    if kind not in _MAPS:
        raise InvalidInputError(f"'kind' must be one of {sorted(_MAPS)}. Got {kind!r} instead.")
    features: FeatureMap = _MAPS[kind].from_dict(record)
    return features
