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
from typing import Any, NamedTuple

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
# Objects of the interpreter whose parts are these attributes
PARTS_OF: dict[Any, tuple[str, ...]] = {
    types.MethodType: ("__self__", "__func__"),
    functools.partial: ("func", "args", "keywords"),
    property: ("fget", "fset", "fdel"),
    staticmethod: ("__func__",),
    classmethod: ("__func__",),
    types.TracebackType: ("tb_frame", "tb_next"),
    # An error that is kept keeps the variables of all functions that it came through.
    BaseException: ("args", "__cause__", "__context__", "__traceback__"),
}
CONTAINERS: tuple[type, ...] = (
    np.ndarray,
    dict,
    list,
    tuple,
    deque,
    set,
    frozenset,
    types.FunctionType,
)
CONTAINERS += (contextvars.ContextVar, functools._lru_cache_wrapper, mmap.mmap, types.FrameType)


@dataclass(frozen=True)
class Outline:
    """What a container shows before its parts: its type, and their names in order."""

    kind: str
    names: tuple[str, ...] = ()


Parts = list[tuple[str, Any]]
ITSELF = {int, bool, str, bytes, type(None)}  # described by their values, and fast
SHOWN = (*CONTAINERS, *PARTS_OF, *LOCKS, *DESCRIPTORS)
LEAVES = (*PLAIN, np.generic, np.dtype, types.ModuleType, types.CodeType)


def leaves(
    value: Any, path: str = "model", deepest: int = MAX_NESTED, seen: dict[int, Any] | None = None
) -> Iterator[tuple[str, Any]]:
    """Walk everything that an object holds, and its `Outline` before its parts.

    Attributes and slots, also of subclasses of numbers and texts, items of containers in their
    order, the arrays that views look into, code, closures and default arguments of functions,
    classes and modules that cannot be imported, arguments and results that a cache keeps, and the
    state that objects of other libraries would write to a file. Where nothing of this can be had,
    an object is equal to itself alone.
    """
    if type(value) in ITSELF:
        yield path, value
        return
    seen = {} if seen is None else seen
    parts: Parts = []
    if isinstance(value, LEAVES):
        yield path, value
        is_named = isinstance(value, type | types.ModuleType)
        if id(value) in seen or not deepest:
            return
        if is_named:
            parts = [] if _is_importable(value) else _namespace(value)
        elif isinstance(value, np.dtype):
            parts = [(".metadata", value.metadata)] if value.metadata else []
        elif type(value).__module__ != "builtins" and not isinstance(value, enum.Enum):
            parts = [] if _is_importable(type(value)) else [(".__class__", type(value))]
            parts += _attributes(value)
        if not parts:
            return
        seen[id(value)] = value
    elif typing.get_origin(value) is not None or type(value).__module__ == "typing":
        yield path, str(value)
    elif id(value) in seen:
        return
    elif deepest == 0:
        yield path, _opaque(value)
    else:
        seen[id(value)] = value  # kept alive, so that no other object takes its place
        is_row = type(value) in {list, tuple} and all(isinstance(item, NUMBERS) for item in value)
        is_numbers = is_foreign_array(value) or is_row
        parts = [] if is_numbers else _parts(value)
        shows_itself = isinstance(value, SHOWN)
        if is_numbers or isinstance(value, np.ndarray):
            yield path, value
        elif parts or shows_itself or hasattr(value, "__dict__"):  # really empty, or a lock
            yield path, Outline(_type_name(value), tuple(name for name, _ in parts))
        else:
            yield path, _opaque(value)
        if not _is_importable(type(value)):
            parts = [*parts, (".__class__", type(value))]
    for name, part in parts:
        yield from leaves(part, path + name, deepest - 1, seen)


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


def _namespace(value: Any) -> Parts:
    parts = [
        (f".{name}", part)
        for name, part in list(vars(value).items())
        if name not in NO_VALUES and not isinstance(part, DESCRIPTORS)
    ]
    bases = value.__bases__ if isinstance(value, type) else ()
    return parts + [(f".__bases__[{i}]", base) for i, base in enumerate(bases)]


def _opaque(value: Any) -> Outline:
    """Stand for what cannot be looked into; no two such objects are equal."""
    return Outline(f"{_type_name(value)} whose contents cannot be inspected", (hex(id(value)),))


def _parts(value: Any) -> Parts:
    """Return the parts of an object by their names."""
    parts: Parts = []
    if isinstance(value, np.ndarray):
        parts = [(".dtype", value.dtype)] if value.dtype.metadata else []
        if value.dtype.hasobject:
            parts += [(f".flat[{i}]", item) for i, item in enumerate(value.ravel())]
        whole = value.base
        shows_all = value.flags.forc and getattr(whole, "nbytes", -1) == value.nbytes
        if whole is not None and not shows_all:
            parts.append((".base", whole))  # a view of a row keeps all rows
        return parts + [(f".{k}", v) for k, v in getattr(value, "__dict__", {}).items()]
    if isinstance(value, dict):
        # A key that has parts is described alone: to write it down would take longer.
        parts = [
            (f"[{key!r}]" if isinstance(key, PLAIN) else f"[key {i}]", item)
            for i, (key, item) in enumerate(value.items())
        ]
        parts += [(f".key{i}", key) for i, key in enumerate(value) if not isinstance(key, PLAIN)]
        return parts + _attributes(value)
    if isinstance(value, list | tuple | deque):
        return [(f"[{i}]", item) for i, item in enumerate(value)] + _attributes(value)
    if isinstance(value, set | frozenset):
        keyed = [
            (repr(description(v)) if isinstance(v, (*PLAIN, np.generic)) else _type_name(v), v)
            for v in value
        ]
        ordered = sorted(keyed, key=lambda each: each[0])
        return [(f"{{{i}}}", item) for i, (_, item) in enumerate(ordered)]
    if isinstance(value, types.FunctionType):
        parts = [(f".{name}", getattr(value, name)) for name in ("__qualname__", "__doc__")]
        parts.append((".__code__", value.__code__))
        for name, cell in zip(value.__code__.co_freevars, value.__closure__ or (), strict=True):
            content = None
            with suppress(ValueError):  # not filled yet
                content = cell.cell_contents
            parts.append((f".closure[{name}]", content))
        home = sys.modules.get(value.__globals__.get("__name__", ""))
        if value.__globals__ is not getattr(home, "__dict__", None):
            parts.append((".__globals__", value.__globals__))
        for name in ("__annotations__", "__defaults__", "__kwdefaults__"):
            if getattr(value, name):
                parts.append((f".{name}", getattr(value, name)))
        return parts + [(f".{k}", v) for k, v in value.__dict__.items()]
    if isinstance(value, contextvars.ContextVar):
        return [(".value", value.get(None))]
    if isinstance(value, functools._lru_cache_wrapper):
        return _referents(value, "cache")  # only the garbage collector can tell what it keeps
    if isinstance(value, mmap.mmap):
        return [] if value.closed else [(".content", value[:])]
    if isinstance(value, types.FrameType):
        local = value.f_locals if value.f_locals is not value.f_globals else {}
        return [(".f_code", value.f_code), *((f".{k}", v) for k, v in local.items())]
    for kind, names in PARTS_OF.items():
        if isinstance(value, kind):
            parts = [(f".{name}", getattr(value, name)) for name in names]
            return parts + (_attributes(value) if kind is BaseException else [])
    # Attributes and slots; for objects made in other languages, what they would write down
    parts = _attributes(value)
    writes_itself = any(
        getattr(type(value), name, None) is not getattr(object, name)
        for name in ("__reduce__", "__getstate__")
    ) and not isinstance(value, BaseEstimator)  # which writes its attributes
    if (parts or hasattr(value, "__dict__")) and not writes_itself:
        return parts
    try:
        written = value.__reduce_ex__(4)
    except Exception:  # it cannot be written down: what does it refer to?
        return parts + _referents(value, "refers")
    if isinstance(written, str):  # the name of something global
        return [*parts, (".written", written)]
    listed = [(f".written[{i}]", part) for i, part in enumerate(written[1:]) if part is not None]
    return parts + listed


def _referents(value: Any, name: str) -> Parts:
    kept = [part for part in gc.get_referents(value) if not isinstance(part, type)]
    return [(f".{name}[{i}]", part) for i, part in enumerate(kept)]


def _attributes(value: Any) -> Parts:
    parts = [(f".{name}", part) for name, part in getattr(value, "__dict__", {}).items()]
    for kind in type(value).__mro__:
        for name, slot in vars(kind).items() if "__slots__" in vars(kind) else ():
            if isinstance(slot, types.MemberDescriptorType):
                with suppress(AttributeError):  # a slot that was never filled
                    parts.append((f".{name}", slot.__get__(value)))
    return parts


def _type_name(value: Any) -> str:
    return f"{type(value).__module__}.{type(value).__qualname__}"


# Comparing --------------------------------------------------------------------------------------


class Description(NamedTuple):
    """All that can be told from a leaf: type, element type, shape, order, and content."""

    type: str
    dtype: str = ""
    shape: tuple[int, ...] = ()
    order: str = ""
    content: Any = b""


def description(value: Any) -> Description:
    """Describe a leaf to the bit: sign of zero, payload of NaN, type and shape included."""
    name = _type_name(value)
    if type(value) in ITSELF:
        return Description(name, content=value)
    if isinstance(value, Outline):
        return Description(value.kind, content=value.names)
    is_foreign = is_foreign_array(value)
    if is_foreign or isinstance(value, np.ndarray | np.generic):
        array = to_numpy(value) if is_foreign else value
        order, shown = "", b""
        if isinstance(array, np.ndarray) and not is_foreign:
            order = f"C={array.flags.c_contiguous} F={array.flags.f_contiguous}"
        if not array.dtype.hasobject:  # of a masked array what lies under the mask as well
            shown = hashlib.sha256(np.asarray(array).tobytes()).digest()
        dtype = str(value.dtype) if is_foreign else repr(array.dtype)
        return Description(name, dtype, array.shape, order, shown)
    if type(value) in {list, tuple}:
        if all(type(item) is int for item in value):
            return Description(name, content=("int", *value))
        return Description(name, content=tuple(description(item) for item in value))
    content: Any = value
    if isinstance(value, float):
        content = struct.pack(">d", value)
    elif isinstance(value, complex):
        content = struct.pack(">dd", value.real, value.imag)
    elif isinstance(value, types.ModuleType):
        content = value.__name__
    elif isinstance(value, np.dtype):
        content = repr(value)
    elif isinstance(value, types.CodeType):
        content = _code_content(value)
    elif isinstance(value, type):
        content = f"{value.__module__}.{value.__qualname__}"
    elif isinstance(value, enum.Enum):
        content = value.name
    elif isinstance(value, bytearray):
        content = bytes(value)
    return Description(name, content=content)


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


# Rows -------------------------------------------------------------------------------------------


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
    rounding = float(np.finfo(value.dtype).eps) if value.dtype.kind == "f" else 0.0
    closest = 1 - max(1e-14, 10 * rounding**2)
    # Frames keep their columns as rows.
    for table in (value, value.T) if value.ndim == 2 else (value,):
        if table.shape[-1:] == rows.shape[1:]:
            directions = []
            for each in (table.reshape(-1, rows.shape[1]).astype(float), rows):
                with np.errstate(invalid="ignore", over="ignore"):
                    lengths = np.linalg.norm(each, axis=1, keepdims=True)
                    directions.append(each / np.where(lengths > 0, lengths, np.inf))
            if np.any(directions[0] @ directions[1].T > closest):
                return True
    return False


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
