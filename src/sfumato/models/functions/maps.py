"""From plain values back to a feature map."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sfumato.core.constraints import refuse
from sfumato.exceptions import InvalidInputError
from sfumato.models.functions.features import FeatureMap, KnotFeatures, TaylorFeatures
from sfumato.models.functions.fourier import FourierFeatures
from sfumato.models.functions.periodic import PeriodicFeatures

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


def stored_features(value: Any, place: str, sizes: dict[str, int]) -> None:
    """Ask a stored model for a feature map of rows of d numbers, and note its size m."""
    features = features_from_dict(value)
    if features.n_features != sizes["d"] or features.size < 1:
        raise refuse(place, f"features of rows of {sizes['d']} numbers")
    sizes["m"] = features.size
