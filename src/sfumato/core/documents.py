"""Texts that several docstrings share, each written once."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

ROWS = """Parameters
        ----------
        X : array-like of shape (n_samples, n_features){}
            Rows.

        Returns
        -------"""
OF_METHODS = {
    "$rows": ROWS.format(""),
    "$records": ROWS.format(" or table"),
    "$self": """Returns
        -------
        Self
            The fitted estimator.""",
}


def document(cls: Any, texts: Mapping[str, str]) -> None:
    """Put shared texts in the place of their names, in the docstrings of a class and its methods.

    A public method without a docstring has that of the base.
    """
    for name, text in texts.items():
        cls.__doc__ = (cls.__doc__ or "").replace(name, text)
    for name, method in vars(cls).items():
        if not inspect.isfunction(method) or name[0] == "_":
            continue
        if not method.__doc__:
            method.__doc__ = getattr(getattr(super(cls, cls), name, None), "__doc__", None)
        for mark, text in OF_METHODS.items():
            method.__doc__ = (method.__doc__ or "").replace(mark, text)
