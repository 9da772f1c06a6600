"""One safe file format for fitted models: arrays and a JSON header, never code."""

from sfumato.persistence.models import guarantee_of, load, save

__all__ = ["guarantee_of", "load", "save"]
