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

import hashlib
import inspect
import io
import json
import math
import os
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from sfumato.core.arrays import is_foreign_array, to_numpy
from sfumato.core.atomic_file import atomic_write
from sfumato.core.constraints import check_stored
from sfumato.exceptions import InvalidInputError, SfumatoError, StoredModelError
from sfumato.privacy.guarantee import Guarantee
from sfumato.tables.bounds import Bounds
from sfumato.tables.schema import TableBounds

FORMAT = "sfumato-model"
FORMAT_VERSION = 1
HEADER = "header.json"
CERTIFICATE = "certificate.json"  # a signed promise that may travel with the model
_SUMS = "SHA256SUMS"
_ARRAY_KINDS = "biufcU"  # bool, integers, floats, complex, text: no objects, no records
_STATE_OF_SCIKIT_LEARN = ("_sklearn_output_config",)  # what `set_output` chose
# Parameters and attributes in files of 0.2.0; dropped where the class no longer has them.
RETIRED = {
    *("algorithm", "bandwidth", "bandwidth_share", "bins", "branch_size", "constraints", "device"),
    *("entry_bound", "expected_rows", "gaussians_per_class", "hull_components", "huber_width"),
    *("loss", "method", "momentum", "n_components", "n_ellipsoids", "n_fourier", "n_jobs"),
    *("n_smoothing", "partition", "pca_share", "positivity", "protect_target", "random_state"),
    *("regularization", "relation", "samples_per_gaussian", "scaling", "search", "single_release"),
    *("space", "target_delta", "target_epsilon", "target_ledger", "unit", "verbose"),
    *("hat_covariance_", "labels_", "method_", "n_inducing_", "noise_precision_"),
    *("cross_fit", "inducing_ratio", "kappa", "largest_weight", "learning_rate", "n_layers"),
    *("branch_", "library_", "n_components_", "n_layers_", "regularization_"),
    *("class_weight", "residual_std_", "starts_", "winners_"),
}
FIXED = {
    "block": 2,
    "kernel": "gaussian",
    "n_bins": 9,
    "n_groups": 27,
    "signed": False,
    "step": None,
}  # parameters of which these values stay


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
    kind, encoder = type(model).__name__, Encoder()
    if (part := getattr(model, "stored_part", None)) is not None:
        raise InvalidInputError(f"A {kind} is not stored; save its {part}, with its guarantee.")
    guarantee = getattr(model, "guarantee_", None)
    header = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "sfumato_version": running_version(),
        "guarantee": None if guarantee is None else guarantee.to_dict(),
        "model": encoder.model(model, kind),
    }
    try:  # a guarantee may hold a NumPy scalar where a float was meant
        text = json.dumps(header, allow_nan=False, indent=1, default=lambda value: value.item())
    except (AttributeError, TypeError, ValueError) as error:
        raise InvalidInputError(f"The guarantee cannot be written as JSON: {error}.") from error
    with atomic_write(path) as file:
        write_members(file, {HEADER: text.encode("ascii"), **encoder.arrays})


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
    with open_stored(path) as members:
        header = members.header()
        decoder = Decoder(members)
        model, promised = decoder.model(header["model"]), header["guarantee"]
        if decoder.unused:
            raise StoredModelError("It contains arrays that its header does not use.")
        stated = None if promised is None else Guarantee.from_dict(promised)
        if getattr(model, "guarantee_", None) != stated:
            raise StoredModelError("The header and the model state different guarantees.")
        return model


def _public_class(name: str) -> type | None:
    """Return a public estimator by its name; no other class is ever built from a file."""
    import sfumato  # here, because the package itself imports this module

    found: Any = getattr(sfumato, name) if name in sfumato._MODULE_OF else None
    is_estimator = isinstance(found, type) and issubclass(found, BaseEstimator)
    return found if is_estimator and getattr(found, "stored_part", None) is None else None


# The container: a zip archive without compression whose members are checked by SHA-256 -----------


def write_members(file: BinaryIO, members: dict[str, bytes]) -> None:
    """Write the members behind the list of their hashes."""
    sums = "".join(f"{hashlib.sha256(m).hexdigest()}  {name}\n" for name, m in members.items())
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for name, data in {_SUMS: sums.encode("ascii"), **members}.items():
            # A fixed date and mode, so that equal models give equal bytes.
            member = zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))
            member.create_system = 3
            member.external_attr = 0o644 << 16
            archive.writestr(member, data)


@contextmanager
def open_stored(path: str | os.PathLike[str]) -> Iterator[Members]:
    """Open a stored model; whatever a bad file breaks on the way, the caller hears one thing."""
    try:
        with Path(path).open("rb") as file, zipfile.ZipFile(file) as archive:
            yield Members(archive, os.fstat(file.fileno()).st_size)
    except StoredModelError as error:
        raise StoredModelError(f"The saved model '{path}' is refused. {error}") from None
    except SfumatoError as error:
        raise StoredModelError(f"The saved model '{path}' cannot be rebuilt. {error}") from error
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise StoredModelError(f"The saved model '{path}' cannot be read: {reason}.") from error
    except MemoryError:  # the model is larger than this machine, which is no fault of the file
        raise
    except Exception as error:
        raise StoredModelError(
            f"The saved model '{path}' is damaged, was altered, or was not written by "
            f"sfumato.save ({type(error).__name__})."
        ) from error


class Members:
    """The members of an open file, each checked against its SHA-256 when it is read."""

    def __init__(self, archive: zipfile.ZipFile, file_size: int) -> None:
        listed = archive.infolist()  # refused before any member is read
        if any((m.compress_type, m.compress_size) != (0, m.file_size) for m in listed):
            raise StoredModelError("It is compressed, and Sfumato never compresses its files.")
        if sum(m.file_size for m in listed) > file_size:
            raise StoredModelError("It declares more bytes than it has.")
        if len({m.filename for m in listed}) != len(listed):
            raise StoredModelError("It contains two members with the same name.")
        self.archive = archive
        lines = archive.read(_SUMS).decode("ascii").splitlines()
        self.sums = {name: digest for digest, name in (line.split("  ", 1) for line in lines)}
        if {_SUMS, *self.sums} != set(archive.namelist()):
            raise StoredModelError("Members are missing or were added.")

    def read(self, name: str) -> bytes:
        """Return one member, if its hash holds."""
        data = self.archive.read(name)
        if self.sums[name] != hashlib.sha256(data).hexdigest():
            raise StoredModelError(f"The SHA-256 of its member {name!r} does not match.")
        return data

    def header(self) -> dict[str, Any]:
        """Return the header, if it is of a format version that can be read."""
        header: dict[str, Any] = json.loads(self.read(HEADER))
        if header["format"] != FORMAT:
            raise StoredModelError("Its header is not that of a Sfumato model.")
        if header["format_version"] > FORMAT_VERSION:
            raise StoredModelError(
                f"It has format version {header['format_version']}, written by Sfumato "
                f"{header['sfumato_version']}; Sfumato {running_version()} reads versions up to "
                f"{FORMAT_VERSION}. Update Sfumato to read it."
            )
        if header["sfumato_version"].startswith("0.1."):
            raise StoredModelError(
                f"It was written by Sfumato {header['sfumato_version']}, which this version does "
                "not read; Sfumato 0.2.0 brings it to a form that this version reads."
            )
        return header


def running_version() -> str:
    """Return the version of Sfumato that runs now."""
    import sfumato  # here, because the package itself imports this module

    return sfumato.__version__


# Values as JSON and arrays, and back: a closed list of kinds -------------------------------------
#
# None, bool, int, finite float, str and list stand for themselves. Everything else is an object
# with one key that names its kind: {"tuple": [...]}, {"dict": {...}}, {"array": "arrays/0.npy"}.


def _is_attribute(name: str) -> bool:
    is_learned = name.endswith("_") and not name.startswith("__")
    return is_learned or name in _STATE_OF_SCIKIT_LEARN


class Encoder:
    """Turn values into JSON, and set their arrays aside as members."""

    def __init__(self) -> None:
        self.arrays: dict[str, bytes] = {}

    def model(self, model: Any, place: str) -> dict[str, Any]:
        """Encode parameters and learned attributes of an estimator."""
        kind: type = type(model)
        if _public_class(kind.__name__) is not kind:
            raise InvalidInputError(
                f"'{place}' is of the class {kind.__name__}; only public estimators of Sfumato "
                "can be saved."
            )
        parameters = model.get_params(deep=False)
        if "ledger" in parameters:  # an open handle, not a setting
            parameters["ledger"] = None
        learned = {name: value for name, value in vars(model).items() if name not in parameters}
        for name in learned:
            if not _is_attribute(name):
                raise InvalidInputError(
                    f"'{place}.{name}' is neither a parameter nor learned (a name ending in '_'); "
                    "saving the model would lose it."
                )
        return {
            "class": kind.__name__,
            "parameters": self._fields(parameters, place),
            "learned": self._fields(learned, place),
        }

    def _fields(self, values: dict[str, Any], place: str) -> dict[str, Any]:
        return {name: self.value(values[name], f"{place}.{name}") for name in sorted(values)}

    def value(self, value: Any, place: str) -> Any:
        """Encode one value; `place` names it in an error."""
        kind = type(value)  # exactly: a subclass may carry more than would be stored
        if value is None or kind in (bool, int, str):
            return value
        if kind is float:
            return value if math.isfinite(value) else {"float": repr(value)}
        if isinstance(value, StrEnum):
            return str(value)
        if kind is np.ndarray or isinstance(value, np.generic):
            return self._array(value, place)
        if is_foreign_array(value):  # a tensor, wherever it lives, comes back as an array of NumPy
            return self._array(to_numpy(value), place)
        if kind in (list, tuple):
            items = [self.value(each, f"{place}[{i}]") for i, each in enumerate(value)]
            return items if kind is list else {"tuple": items}
        if kind is dict and all(type(key) is str for key in value):
            # A key may be a data value, and no error names it.
            values = [
                self.value(each, f"{place}[item {i}]") for i, each in enumerate(value.values())
            ]
            return {"dict": dict(zip(value, values, strict=True))}
        if kind is Bounds:
            return {"bounds": self._fields(vars(value), place)}
        if kind is TableBounds:
            return {"table": self.value(value.to_record(), place)}
        if kind is Guarantee:
            return {"guarantee": value.to_dict()}
        if isinstance(value, BaseEstimator):
            return {"model": self.model(value, place)}
        raise InvalidInputError(f"'{place}' holds a {kind.__name__}, which cannot be saved.")

    def _array(self, value: NDArray[Any] | np.generic[Any], place: str) -> dict[str, Any]:
        array = np.asanyarray(value)
        if array.dtype == object and all(type(item) is str for item in array.flat):
            return {"strings": {"shape": list(array.shape), "values": list(array.flat)}}
        if array.dtype.kind not in _ARRAY_KINDS:
            raise InvalidInputError(f"'{place}' is of dtype {array.dtype}, which cannot be saved.")
        name, buffer = f"arrays/{len(self.arrays)}.npy", io.BytesIO()
        np.lib.format.write_array(buffer, array, allow_pickle=False)
        self.arrays[name] = buffer.getvalue()
        return {"array" if isinstance(value, np.ndarray) else "scalar": name}


class Decoder:
    """Build values of the known kinds only; every array member is used exactly once."""

    def __init__(self, members: Members) -> None:
        self.members = members
        self.unused = set(members.sums) - {HEADER, CERTIFICATE}
        self.kinds: dict[str, Callable[[Any], Any]] = {
            "array": self._array,
            "bounds": lambda record: Bounds(**self._fields(record)),
            "dict": self._fields,
            "float": float,
            "guarantee": Guarantee.from_dict,
            "model": self.model,
            "scalar": lambda name: self._array(name)[()],
            "strings": self._strings,
            "table": lambda record: TableBounds.from_record(self.value(record)),
            "tuple": lambda items: tuple(self.value(item) for item in items),
        }

    def value(self, value: Any) -> Any:
        """Build one value."""
        if isinstance(value, list):
            return [self.value(item) for item in value]
        if not isinstance(value, dict):
            return value
        ((kind, content),) = value.items()
        return self.kinds[kind](content)

    def _fields(self, record: dict[str, Any]) -> dict[str, Any]:
        return {name: self.value(value) for name, value in record.items()}

    def model(self, record: dict[str, Any]) -> Any:
        """Build a model, checked by the forms of its class."""
        name = record["class"]
        parameters, learned = (self._fields(record[part]) for part in ("parameters", "learned"))
        # Classes and settings of 0.2.0.
        if name == "PrivateAffineHullClassifier" and parameters.get("unit") == "entry":
            name = "EntryHullClassifier"
        if name == "Fabricator" and isinstance(parameters["bounds"], Bounds):
            name = "GaussianFabricator"
        minimiser = parameters.get("algorithm") in ("objective", "output")
        if name == "PrivateLinearClassifier" and minimiser:
            parameters["whiten"] = bool(parameters["whiten"])  # None was False for minimisers
        kind = _public_class(name)
        if kind is None:
            raise StoredModelError(
                f"It contains the class {name!r}, which is not a public estimator of this Sfumato."
            )
        known = {*inspect.signature(kind).parameters, *getattr(kind, "stored_form", {})}
        is_default = {key for key, value in FIXED.items() if parameters.get(key) == value}
        for key in (RETIRED | is_default) - known & parameters.keys():
            del parameters[key]
        model = kind(**parameters)
        for attribute, value in learned.items():
            if not _is_attribute(attribute):
                raise StoredModelError(
                    f"It contains the attribute {attribute!r}, which is not one."
                )
            if attribute not in RETIRED - known:
                setattr(model, attribute, value)
        check_stored(model)
        return model

    def _array(self, name: str) -> NDArray[Any]:
        self.unused.remove(name)  # a second use would let a small file ask for much memory
        data = self.members.read(name)
        stream = io.BytesIO(data)
        version = np.lib.format.read_magic(stream)
        readers = {
            (1, 0): np.lib.format.read_array_header_1_0,
            (2, 0): np.lib.format.read_array_header_2_0,
        }
        shape, _, dtype = readers[version](stream)
        fits = stream.tell() + math.prod(shape) * dtype.itemsize == len(data)
        if dtype.kind not in _ARRAY_KINDS or min(shape, default=0) < 0 or not fits:
            raise StoredModelError(f"The array {name!r} does not fit its declared shape and dtype.")
        stream.seek(0)
        array: NDArray[Any] = np.lib.format.read_array(stream, allow_pickle=False)
        return array

    def _strings(self, record: dict[str, Any]) -> NDArray[np.object_]:
        values = record["values"]
        if not all(isinstance(value, str) for value in values):
            raise StoredModelError("An array of strings contains something else.")
        if math.prod(record["shape"]) != len(values):
            raise StoredModelError("An array of strings does not fit its declared shape.")
        return np.array(values, dtype=object).reshape(record["shape"])
