"""Values of a model as JSON and arrays, and back; a closed list of kinds."""

from __future__ import annotations

import inspect
import io
import json
import math
from collections.abc import Callable
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from sfumato.core.arrays import is_foreign_array, to_numpy
from sfumato.core.constraints import check_stored
from sfumato.exceptions import InvalidInputError, StoredModelError
from sfumato.models.container import Members
from sfumato.privacy.guarantee import Guarantee

_ARRAY_KINDS = "biufcU"  # bool, integers, floats, complex, text: no objects, no records
_DEEPEST = 32
_MAX_INTEGER_BITS = 4096  # bits; JSON readers refuse far longer ones
_HANDLES = ("ledger", "target_ledger")  # open handles, not settings: stored as None
# Of files of 0.2.0; dropped where the class no longer takes them.
RETIRED = {
    *("algorithm", "branch_size", "device", "entry_bound", "gaussians_per_class"),
    *("hull_components", "method", "n_components", "n_jobs", "n_smoothing", "partition"),
    *("regularization", "relation", "samples_per_gaussian", "unit", "verbose"),
}
_STATE_OF_SCIKIT_LEARN = ("_sklearn_output_config",)  # what `set_output` chose

# None, bool, int, finite float, str and list stand for themselves. Everything else is an object
# with one key that names its kind: {"tuple": [...]}, {"dict": {...}}, {"array": "arrays/0.npy"}.


class Encoder:
    """Turn values into JSON, and set their arrays aside as members."""

    def __init__(self, classes: dict[str, type]) -> None:
        self.classes = classes
        self.arrays: dict[str, bytes] = {}

    def model(self, model: Any, place: str, depth: int = 0) -> dict[str, Any]:
        """Encode parameters and learned attributes of an estimator."""
        kind: type = type(model)
        if self.classes.get(kind.__name__) is not kind:
            raise InvalidInputError(
                f"'{place}' is of the class {kind.__name__}; only public estimators of Sfumato "
                "can be saved."
            )
        parameters = model.get_params(deep=False)
        parameters.update({handle: None for handle in _HANDLES if handle in parameters})
        learned = {name: value for name, value in vars(model).items() if name not in parameters}
        for name in learned:
            if not (_is_learned(name) or name in _STATE_OF_SCIKIT_LEARN):
                raise InvalidInputError(
                    f"'{place}.{name}' is neither a parameter nor learned (a name ending in '_'); "
                    "saving the model would lose it."
                )
        return {
            "class": kind.__name__,
            "parameters": self._fields(parameters, place, depth),
            "learned": self._fields(learned, place, depth),
        }

    def _fields(self, values: dict[str, Any], place: str, depth: int) -> dict[str, Any]:
        return {
            name: self.value(values[name], f"{place}.{name}", depth + 1) for name in sorted(values)
        }

    def value(self, value: Any, place: str, depth: int) -> Any:
        """Encode one value; `place` names it in an error."""
        if depth > _DEEPEST:
            raise InvalidInputError(f"'{place}' is nested more than {_DEEPEST} levels deep.")
        kind = type(value)  # exactly: a subclass may carry more than would be stored
        if value is None or kind in (bool, str) or (kind is int and _short(value)):
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
            items = [self.value(v, f"{place}[{i}]", depth + 1) for i, v in enumerate(value)]
            return items if kind is list else {"tuple": items}
        if kind is dict:
            return {"dict": self._dict(value, place, depth)}
        if _is_bounds(kind):
            return {"bounds": self._fields(vars(value), place, depth)}
        if kind.__name__ == "TableBounds":
            return {"table": self.value(value.to_record(), place, depth + 1)}
        if kind is Guarantee:
            return {"guarantee": value.to_dict()}
        if isinstance(value, BaseEstimator):
            return {"model": self.model(value, place, depth)}
        raise InvalidInputError(f"'{place}' holds a {_described(value)}, which cannot be saved.")

    def _dict(self, value: dict[Any, Any], place: str, depth: int) -> dict[str, Any]:
        if not all(type(key) is str for key in value):
            raise InvalidInputError(f"'{place}' is a dict whose keys are not all strings.")
        places = (f"{place}[item {i}]" for i in range(len(value)))  # a key may be a data value
        return {
            key: self.value(v, each, depth + 1)
            for each, (key, v) in zip(places, value.items(), strict=True)
        }

    def _array(self, value: NDArray[Any] | np.generic[Any], place: str) -> dict[str, Any]:
        kind = "array" if isinstance(value, np.ndarray) else "scalar"
        array = np.asanyarray(value)
        if array.dtype == object and all(type(item) is str for item in array.flat):
            return {"strings": {"shape": list(array.shape), "values": list(array.flat)}}
        if array.dtype.kind not in _ARRAY_KINDS:
            raise InvalidInputError(f"'{place}' is of dtype {array.dtype}, which cannot be saved.")
        name = f"arrays/{len(self.arrays)}.npy"
        self.arrays[name] = _npy_bytes(array)
        return {kind: name}


def _short(value: int) -> bool:
    return value.bit_length() <= _MAX_INTEGER_BITS


def _described(value: Any) -> str:
    return f"very long {type(value).__name__}" if type(value) is int else type(value).__name__


def _npy_bytes(array: NDArray[Any]) -> bytes:
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, array, allow_pickle=False)
    return buffer.getvalue()


def json_bytes(header: dict[str, Any]) -> bytes:
    """Return the header as bytes."""
    try:
        text = json.dumps(header, allow_nan=False, indent=1, default=_plain_number)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(f"The guarantee cannot be written as JSON: {error}.") from error
    return text.encode("ascii")


def _plain_number(value: Any) -> Any:
    # A guarantee may hold a numpy scalar where a float was meant.
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"a value is a {type(value).__name__}")


def _is_bounds(kind: type) -> bool:
    from sfumato.tables.bounds import Bounds  # here: tables stand above

    return kind is Bounds


class Decoder:
    """Build values of the known kinds only; every array member is used exactly once."""

    def __init__(self, classes: dict[str, type], members: Members) -> None:
        self.classes = classes
        self.members = members
        self.unused = members.array_names()
        self.kinds: dict[str, Callable[[Any], Any]] = {
            "array": self._array,
            "bounds": self._bounds,
            "dict": self._fields,
            "float": float,
            "guarantee": Guarantee.from_dict,
            "model": self._model,
            "scalar": lambda name: self._array(name)[()],
            "strings": _strings,
            "table": self._table,
            "tuple": lambda items: tuple(self.value(item) for item in items),
        }

    def _bounds(self, record: Any) -> Any:
        from sfumato.tables.bounds import Bounds  # here: tables stand above

        return Bounds(**self._fields(record))

    def _table(self, record: Any) -> Any:
        from sfumato.tables.schema import TableBounds  # here: tables stand above

        return TableBounds.from_record(self.value(record))

    def whole_model(self, record: dict[str, Any]) -> Any:
        """Build the model of a file, and make sure that nothing of the file is left over."""
        model = self._model(record)
        if self.unused:
            raise StoredModelError("It contains arrays that its header does not use.")
        return model

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

    def _model(self, record: dict[str, Any]) -> Any:
        name = record["class"]
        parameters, learned = (self._fields(record[part]) for part in ("parameters", "learned"))
        name = _as_now(name, parameters)
        if name not in self.classes:
            raise StoredModelError(
                f"It contains the class {name!r}, which is not a public estimator of this Sfumato."
            )
        known = inspect.signature(self.classes[name]).parameters
        for key in RETIRED - known.keys() & parameters.keys():
            del parameters[key]
        model = self.classes[name](**parameters)
        for attribute, value in learned.items():
            if not (_is_learned(attribute) or attribute in _STATE_OF_SCIKIT_LEARN):
                raise StoredModelError(
                    f"It contains the attribute {attribute!r}, which is not one."
                )
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


def _as_now(name: str, parameters: dict[str, Any]) -> str:
    """Return the class of today for one of 0.2.0, and say what its settings meant then."""
    if name == "PrivateAffineHullClassifier" and parameters.get("unit") == "entry":
        return "EntryHullClassifier"
    if name == "PrivateLinearClassifier" and parameters.get("algorithm") in ("objective", "output"):
        parameters["whiten"] = bool(parameters["whiten"])  # None was False for minimisers
    return name


def _strings(record: dict[str, Any]) -> NDArray[np.object_]:
    values = record["values"]
    if not all(isinstance(value, str) for value in values):
        raise StoredModelError("An array of strings contains something else.")
    if math.prod(record["shape"]) != len(values):
        raise StoredModelError("An array of strings does not fit its declared shape.")
    return np.array(values, dtype=object).reshape(record["shape"])


def _is_learned(name: str) -> bool:
    return name.endswith("_") and not name.startswith("__")
