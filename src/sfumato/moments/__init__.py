"""Moved: see `sfumato.models.moments`."""
