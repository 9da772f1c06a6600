"""One safe file for a fitted model: arrays and a JSON header, never code.

The file is a zip archive without compression::

    SHA256SUMS        one line per member, as `sha256sum --check` reads it
    header.json       format, versions, class, parameters, learned values, guarantee
    arrays/0.npy      the arrays, in the order in which the header names them
    ...

Nothing in it is executed or imported: the class is looked up in the table of Sfumato's public
estimators, and every value is built from a closed list of kinds. Equal models give equal bytes.
Any zip tool opens the file, and any reader of JSON finds the guarantee.
"""

from __future__ import annotations

import io
import os
from typing import Any

from sklearn.base import BaseEstimator

from sfumato.core.atomic_file import atomic_write
from sfumato.exceptions import InvalidInputError, StoredModelError
from sfumato.models.container import (
    FORMAT,
    FORMAT_VERSION,
    HEADER,
    opened,
    running_version,
    write_members,
)
from sfumato.models.stored_values import Decoder, Encoder, json_bytes
from sfumato.privacy.guarantee import Guarantee


def save(model: Any, path: str | os.PathLike[str]) -> None:
    """Store a model in one file, written aside and renamed.

    Parameters
    ----------
    model : estimator
        One of Sfumato's public estimators, fitted or not. It may hold other ones.
    path : path-like
        The file to write; an older one is replaced only when the new one is complete.

    Raises
    ------
    InvalidInputError
        The model is not a public estimator of Sfumato, or one of its parameters or attributes
        holds something the format does not know (a function, a generator, an open file). The
        message names it. Nothing is written.

    Notes
    -----
    The file contains the constructor's parameters and the learned attributes, whose names end in
    ``_``; any other attribute is refused rather than dropped. A `ledger` is a handle to something
    that lives elsewhere: it is never stored, and the loaded model has ``ledger=None``. Words such
    as ``Relation.REPLACE_ONE`` come back as plain strings. Tensors of PyTorch and of other
    libraries are stored as arrays, whatever device they are on, and come back as NumPy arrays: to
    load the model, you need neither the library nor the device.

    The file contains what the model contains. That a private model keeps no raw row is guaranteed
    by its class, not by this function.
    """
    members = _members_of(model)
    with atomic_write(path) as file:
        write_members(file, members)


def stored_bytes(model: Any) -> bytes:
    """Return the bytes that `save` writes; equal models give equal bytes."""
    buffer = io.BytesIO()
    write_members(buffer, _members_of(model))
    return buffer.getvalue()


def _members_of(model: Any) -> dict[str, bytes]:
    part = getattr(type(model), "stored_part", None)
    if part is not None:
        raise InvalidInputError(
            f"A {type(model).__name__} is not stored; save its {part}, which has its guarantee."
        )
    writer = Encoder(_known_classes())
    stored = writer.model(model, type(model).__name__)
    guarantee = _guarantee_stated_by(model)
    header = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "sfumato_version": running_version(),
        "guarantee": None if guarantee is None else guarantee.to_dict(),
        "model": stored,
    }
    return {HEADER: json_bytes(header), **writer.arrays}


def load(path: str | os.PathLike[str]) -> Any:
    """Rebuild a model from the file that `save` wrote; its predictions are the same to the bit.

    Parameters
    ----------
    path : path-like
        A file written by `save`.

    Returns
    -------
    estimator
        A new model with the stored parameters and learned attributes.

    Raises
    ------
    StoredModelError
        The file is missing, truncated, altered, of a newer format, or names a class that is not a
        public estimator of Sfumato.

    Notes
    -----
    A file from a stranger cannot run code and cannot claim more memory than its own size. The
    hashes find damage; they are not a signature, so anyone who rewrites the whole file can also
    write another guarantee into it. If that matters, keep the ledger, or a hash of the file.
    """
    with opened(path) as members:
        header = members.header()
        model = Decoder(_known_classes(), members).whole_model(header["model"])
        if _guarantee_stated_by(model) != _guarantee_in(header):
            raise StoredModelError("The header and the model state different guarantees.")
        return model


def guarantee_of(path: str | os.PathLike[str]) -> Guarantee | None:
    """Read only the header and return the guarantee of a stored model, or None if it has none."""
    with opened(path) as members:
        return _guarantee_in(members.header())


def _guarantee_stated_by(model: Any) -> Guarantee | None:
    stated = getattr(model, "guarantee_", None)
    return stated if isinstance(stated, Guarantee) else None


def _guarantee_in(header: dict[str, Any]) -> Guarantee | None:
    record = header["guarantee"]
    return None if record is None else Guarantee.from_dict(record)


def _known_classes() -> dict[str, type]:
    """Return the public estimators by name: the only classes that are ever built from a file."""
    import sfumato  # here, because the package itself imports this module

    found = (getattr(sfumato, name) for name in sfumato._MODULE_OF)
    return {
        each.__name__: each
        for each in found
        if isinstance(each, type)
        and issubclass(each, BaseEstimator)
        and getattr(each, "stored_part", None) is None
    }
