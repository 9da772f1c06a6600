"""Looking inside fitted objects and saved files."""

from __future__ import annotations

import contextvars
import enum
import functools
import gc
import hashlib
import io
import mmap
import struct
import sys
import tempfile
import threading
import types
import typing
import zipfile
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from sfumato.core.arrays import is_foreign_array, to_numpy
from sfumato.exceptions import InvalidInputError
from sfumato.models.saving import save

PLAIN = (int, float, complex, str, bytes, bytearray, type(None), type(Ellipsis), type, enum.Enum)
NUMBERS = (int, float, np.number)
MAX_NESTED = 40  # deeper than any model, shallower than Python's stack
LOCKS = (type(threading.Lock()), type(threading.RLock()))
DESCRIPTORS = (
    types.GetSetDescriptorType,
    types.MemberDescriptorType,
    types.WrapperDescriptorType,
    types.MethodDescriptorType,
    types.BuiltinFunctionType,
)
HEAP_TYPE = 1 << 9
NO_VALUES = {"__dict__", "__weakref__", "_abc_impl", "__module__", "__builtins__"}


@dataclass(frozen=True)
class Outline:
    """What a container shows before its parts: its type, and their names in order."""

    kind: str
    names: tuple[str, ...] = ()


Parts = list[tuple[str, Any]]
ITSELF = {int, bool, str, bytes, type(None)}  # described by their values, and fast
LEAVES = (*PLAIN, np.generic, np.dtype, types.ModuleType, types.CodeType)


def leaves(value: Any, path: str = "model", deepest: int = MAX_NESTED) -> Iterator[tuple[str, Any]]:
    """Walk everything that an object holds, and its `Outline` before its parts.

    Attributes and slots, also of subclasses of numbers and texts, items of containers in their
    order, the arrays that views look into, code, closures and default arguments of functions,
    classes and modules that cannot be imported, arguments and results that a cache keeps, and the
    state that objects of other libraries would write to a file. Where nothing of this can be had,
    an object is equal to itself alone.
    """
    yield from _walk(value, path, deepest, {})


def _walk(value: Any, path: str, deepest: int, seen: dict[int, Any]) -> Iterator[tuple[str, Any]]:
    if isinstance(value, LEAVES):
        yield path, value
        is_named = isinstance(value, type | types.ModuleType)
        if type(value).__module__ == "builtins" and not is_named:
            return
        if id(value) not in seen and deepest:
            seen[id(value)] = value
            for name, part in _parts_of_leaf(value):
                yield from _walk(part, path + name, deepest - 1, seen)
        return
    if typing.get_origin(value) is not None or type(value).__module__ == "typing":
        yield path, str(value)
        return
    if id(value) in seen:
        return
    if deepest == 0:
        yield path, _opaque(value)
        return
    seen[id(value)] = value  # kept alive, so that no other object takes its place
    is_numbers = is_foreign_array(value) or _is_row_of_numbers(value)
    parts = [] if is_numbers else _parts(value)
    if is_numbers or isinstance(value, np.ndarray):
        yield path, value
    elif parts or _shows_itself(value):
        yield path, Outline(_type_name(value), tuple(name for name, _ in parts))
    else:
        yield path, _opaque(value)
    if not _is_importable(type(value)):
        parts = [*parts, (".__class__", type(value))]
    for name, part in parts:
        yield from _walk(part, path + name, deepest - 1, seen)


def _parts_of_leaf(value: Any) -> Parts:
    """What can hang on a class, a module, a number or a text."""
    if isinstance(value, type | types.ModuleType):
        return [] if _is_importable(value) else _of_namespace(value)
    if isinstance(value, np.dtype):
        return [(".metadata", value.metadata)] if value.metadata else []
    if isinstance(value, enum.Enum):
        return []
    parts = [] if _is_importable(type(value)) else [(".__class__", type(value))]
    return parts + _stored_attributes(value)


def _is_importable(value: Any) -> bool:
    """Whether a class or module is the one of its name, and so belongs to no model."""
    if isinstance(value, types.ModuleType):
        return sys.modules.get(value.__name__) is value
    if not value.__flags__ & HEAP_TYPE:  # of the interpreter, and nothing can be written to it
        return True
    found: Any = sys.modules.get(value.__module__)
    for name in value.__qualname__.split("."):
        found = getattr(found, name, None)
    return found is value


def _of_namespace(value: Any) -> Parts:
    parts = [
        (f".{name}", part)
        for name, part in list(vars(value).items())
        if name not in NO_VALUES and not isinstance(part, DESCRIPTORS)
    ]
    bases = value.__bases__ if isinstance(value, type) else ()
    return parts + [(f".__bases__[{i}]", base) for i, base in enumerate(bases)]


def _opaque(value: Any) -> Outline:
    """Stand for what cannot be looked into; no two such objects are equal."""
    return Outline(f"{_type_name(value)} that cannot be looked into", (hex(id(value)),))


def _is_row_of_numbers(value: Any) -> bool:
    return type(value) in {list, tuple} and all(isinstance(item, NUMBERS) for item in value)


def _parts(value: Any) -> Parts:
    for kind, parts_of in _WAYS:
        if isinstance(value, kind):
            return list(parts_of(value))
    return _stored(value)


def _shows_itself(value: Any) -> bool:
    """Whether an object without parts is really empty, or a lock, which holds nothing."""
    kinds = tuple(kind for kind, _ in _WAYS)
    return isinstance(value, (*kinds, *LOCKS, *DESCRIPTORS)) or hasattr(value, "__dict__")


def _of_array(value: np.ndarray) -> Parts:
    parts: Parts = [(".dtype", value.dtype)] if value.dtype.metadata else []
    if value.dtype.hasobject:
        parts += [(f".flat[{i}]", item) for i, item in enumerate(value.ravel())]
    whole = value.base
    shows_all = value.flags.forc and getattr(whole, "nbytes", -1) == value.nbytes
    if whole is not None and not shows_all:
        parts.append((".base", whole))  # a view of a row keeps all rows
    return parts + _named(getattr(value, "__dict__", {}))


def _of_dict(value: dict[Any, Any]) -> Parts:
    # A key that has parts is described by itself: to write it down would take longer.
    items: Parts = [
        (f"[{key!r}]" if isinstance(key, PLAIN) else f"[key {i}]", item)
        for i, (key, item) in enumerate(value.items())
    ]
    keys = [(f".key{i}", key) for i, key in enumerate(value) if not isinstance(key, PLAIN)]
    return items + keys + _stored_attributes(value)


def _of_sequence(value: Any) -> Parts:
    items: Parts = [(f"[{i}]", item) for i, item in enumerate(value)]
    return items + _stored_attributes(value)


def _of_set(value: Any) -> Parts:
    return [(f"{{{i}}}", item) for i, item in enumerate(sorted(value, key=_sort_key))]


def _sort_key(value: Any) -> str:
    return (
        repr(description(value)) if isinstance(value, (*PLAIN, np.generic)) else _type_name(value)
    )


def _of_function(value: types.FunctionType) -> Parts:
    cells = zip(value.__code__.co_freevars, value.__closure__ or (), strict=True)
    parts: Parts = [(f".{name}", getattr(value, name)) for name in ("__qualname__", "__doc__")]
    parts.append((".__code__", value.__code__))
    parts += [(f".closure[{name}]", _content(cell)) for name, cell in cells]
    home = sys.modules.get(value.__globals__.get("__name__", ""))
    if value.__globals__ is not getattr(home, "__dict__", None):
        parts.append((".__globals__", value.__globals__))
    if value.__annotations__:
        parts.append((".__annotations__", value.__annotations__))
    if value.__defaults__:
        parts.append((".__defaults__", value.__defaults__))
    if value.__kwdefaults__:
        parts.append((".__kwdefaults__", value.__kwdefaults__))
    return parts + _named(value.__dict__)


def _of_error(value: BaseException) -> Parts:
    """An error that is kept keeps the variables of all functions that it came through."""
    names = ("args", "__cause__", "__context__", "__traceback__")
    return [(f".{name}", getattr(value, name)) for name in names] + _stored_attributes(value)


def _of_traceback(value: types.TracebackType) -> Parts:
    return [(".tb_frame", value.tb_frame), (".tb_next", value.tb_next)]


def _of_frame(value: types.FrameType) -> Parts:
    is_of_a_call = value.f_locals is not value.f_globals
    return [(".f_code", value.f_code), *(_named(value.f_locals) if is_of_a_call else [])]


def _of_map(value: mmap.mmap) -> Parts:
    return [] if value.closed else [(".content", value[:])]


def _content(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not filled yet
        return None


def _of_method(value: types.MethodType) -> Parts:
    return [(".__self__", value.__self__), (".__func__", value.__func__)]


def _of_partial(value: functools.partial[Any]) -> Parts:
    return [(".func", value.func), (".args", value.args), (".keywords", value.keywords)]


def _of_property(value: property) -> Parts:
    return [(f".{name}", getattr(value, name)) for name in ("fget", "fset", "fdel")]


def _of_wrapper(value: Any) -> Parts:
    return [(".__func__", value.__func__)]


def _of_context(value: contextvars.ContextVar[Any]) -> Parts:
    return [(".value", value.get(None))]


def _of_cache(value: Any) -> Parts:
    # Only the garbage collector can tell what `lru_cache` keeps.
    kept = [part for part in gc.get_referents(value) if not isinstance(part, type)]
    return [(f".cache[{i}]", part) for i, part in enumerate(kept)]


_WAYS: tuple[tuple[Any, Any], ...] = (
    (np.ndarray, _of_array),
    (dict, _of_dict),
    ((list, tuple, deque), _of_sequence),
    ((set, frozenset), _of_set),
    (types.FunctionType, _of_function),
    (types.MethodType, _of_method),
    (functools.partial, _of_partial),
    (property, _of_property),
    ((staticmethod, classmethod), _of_wrapper),
    (contextvars.ContextVar, _of_context),
    (functools._lru_cache_wrapper, _of_cache),
    (mmap.mmap, _of_map),
    (BaseException, _of_error),
    (types.TracebackType, _of_traceback),
    (types.FrameType, _of_frame),
)


def _stored(value: Any) -> Parts:
    """Attributes and slots; for objects made in other languages, what they would write down."""
    parts = _stored_attributes(value)
    writes_itself = any(
        getattr(type(value), name, None) is not getattr(object, name)
        for name in ("__reduce__", "__getstate__")
    ) and not isinstance(value, BaseEstimator)  # which writes its attributes
    is_plain = bool(parts) or hasattr(value, "__dict__")
    return parts if is_plain and not writes_itself else parts + _reduced(value)


def _stored_attributes(value: Any) -> Parts:
    parts = _named(getattr(value, "__dict__", {}))
    for kind in type(value).__mro__:
        for name, slot in vars(kind).items() if "__slots__" in vars(kind) else ():
            if isinstance(slot, types.MemberDescriptorType):
                with suppress(AttributeError):  # a slot that was never filled
                    parts.append((f".{name}", slot.__get__(value)))
    return parts


def _named(attributes: Any) -> Parts:
    return [(f".{name}", value) for name, value in attributes.items()]


def _reduced(value: Any) -> Parts:
    try:
        written = value.__reduce_ex__(4)
    except Exception:  # it cannot be written down: what does it refer to?
        kept = [part for part in gc.get_referents(value) if not isinstance(part, type)]
        return [(f".refers[{i}]", part) for i, part in enumerate(kept)]
    if isinstance(written, str):  # the name of something global
        return [(".written", written)]
    return [(f".written[{i}]", part) for i, part in enumerate(written[1:]) if part is not None]


def _type_name(value: Any) -> str:
    kind = type(value)
    return f"{kind.__module__}.{kind.__qualname__}"


# Comparing ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Description:
    """All that can be told from a leaf: type, element type, shape, order, and content."""

    type: str
    dtype: str = ""
    shape: tuple[int, ...] = ()
    order: str = ""
    content: Any = b""


def description(value: Any) -> Description:
    """Describe a leaf to the bit: sign of zero, payload of NaN, type and shape included."""
    if type(value) in ITSELF:
        return Description(_type_name(value), content=value)
    if isinstance(value, Outline):
        return Description(value.kind, content=value.names)
    if is_foreign_array(value):
        host = _of_numbers(to_numpy(value))
        return Description(_type_name(value), str(value.dtype), host.shape, "", host.content)
    if isinstance(value, np.ndarray | np.generic):
        return _of_numbers(value)
    if type(value) in {list, tuple}:
        if all(type(item) is int for item in value):
            return Description(_type_name(value), content=("int", *value))
        return Description(_type_name(value), content=tuple(description(item) for item in value))
    return Description(_type_name(value), content=_plain_content(value))


def _of_numbers(value: Any) -> Description:
    order = ""
    if isinstance(value, np.ndarray):
        order = f"C={value.flags.c_contiguous} F={value.flags.f_contiguous}"
    content = b""
    if not value.dtype.hasobject:  # of a masked array what lies under the mask as well
        content = hashlib.sha256(np.asarray(value).tobytes()).digest()
    return Description(_type_name(value), repr(value.dtype), value.shape, order, content)


def _plain_content(value: Any) -> Any:
    if isinstance(value, float):
        return struct.pack(">d", value)
    if isinstance(value, complex):
        return struct.pack(">dd", value.real, value.imag)
    if isinstance(value, types.ModuleType):
        return value.__name__
    if isinstance(value, np.dtype):
        return repr(value)
    if isinstance(value, types.CodeType):
        return _code_content(value)
    if isinstance(value, type):
        return f"{value.__module__}.{value.__qualname__}"
    if isinstance(value, enum.Enum):
        return value.name
    return bytes(value) if isinstance(value, bytearray) else value


def _code_content(code: types.CodeType) -> tuple[Any, ...]:
    constants = [
        _code_content(each) if isinstance(each, types.CodeType) else repr(each)
        for each in code.co_consts
    ]
    place = code.co_filename, code.co_name, code.co_firstlineno
    return place, code.co_code, code.co_names, code.co_varnames, tuple(constants)


def described(value: Any, path: str = "model", deepest: int = MAX_NESTED) -> dict[str, Description]:
    """Describe every leaf of an object, by its path."""
    return {where: description(leaf) for where, leaf in leaves(value, path, deepest)}


def first_difference(
    before: dict[str, Description], after: dict[str, Description]
) -> tuple[str, str] | None:
    """Return where two descriptions differ first, and in what; None where they are equal."""
    for path in before if before.keys() == after.keys() else (*before, *after):
        here, there = before.get(path), after.get(path)
        if here == there:
            continue
        if here is None or there is None:
            return path, "presence"
        for aspect in ("type", "shape", "dtype", "order", "content"):
            if getattr(here, aspect) != getattr(there, aspect):
                return path, aspect
    return None


def equal_to_the_bit(a: Any, b: Any) -> bool:
    """Compare two leaves in type, shape, element type and bytes."""
    return a is b or described(a) == described(b)


# Rows ---------------------------------------------------------------------------------------------


def holds_a_row(value: Any, rows: np.ndarray) -> bool:
    """Whether a row stands in an array or a list of numbers, scaled or not, or in bytes."""
    if isinstance(value, bytes | bytearray):
        return any(row.astype(kind).tobytes() in value for row in rows for kind in ("f8", "f4"))
    if is_foreign_array(value):
        value = to_numpy(value)
    elif type(value) in {list, tuple} and len(value) == rows.shape[1]:
        value = np.asarray(value, dtype=float)
    if not isinstance(value, np.ndarray) or value.dtype.kind not in "fiu":
        return False
    closest = 1 - max(1e-14, 10 * _rounding(value) ** 2)
    # Frames keep their columns as rows.
    for table in (value, value.T) if value.ndim == 2 else (value,):
        if table.shape[-1:] == rows.shape[1:]:
            found = _directions(table.reshape(-1, rows.shape[1]).astype(float))
            if np.any(found @ _directions(rows).T > closest):
                return True
    return False


def _rounding(value: np.ndarray) -> float:
    return float(np.finfo(value.dtype).eps) if value.dtype.kind == "f" else 0.0


def _directions(rows: np.ndarray) -> np.ndarray:
    with np.errstate(invalid="ignore", over="ignore"):
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
        return np.asarray(rows / np.where(lengths > 0, lengths, np.inf))


def unpacked(file: bytes) -> bytes:
    """Return all members of a saved model, one after the other."""
    if not file:
        return b""
    with zipfile.ZipFile(io.BytesIO(file)) as archive:
        return b"".join(archive.read(name) for name in archive.namelist())


def saved_bytes(model: Any) -> bytes:
    """Return the bytes of the file that `save` writes; the estimators of Sfumato must have one."""
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "model.sfumato"
        try:
            save(model, target)
        except InvalidInputError:
            module = type(model).__module__
            if module.startswith("sfumato.") and not module.startswith("sfumato.papers."):
                raise
            return b""
        return target.read_bytes()
