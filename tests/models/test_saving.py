"""The file format: what goes in comes out, and nothing else is let in."""

import hashlib
import io
import json
import math
import struct
import zipfile

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.extra import numpy as hnp
from sklearn.base import BaseEstimator
from sklearn.linear_model import LogisticRegression

from sfumato import Bounds, Guarantee
from sfumato.exceptions import InvalidInputError, StoredModelError
from sfumato.models import saving as models
from sfumato.models.saving import load, save
from sfumato.privacy.events import EntryEvent, GaussianEvent, NonPrivateEvent, RepeatedEvent
from sfumato.privacy.guarantee import RecordReading, Relation


class Hull(BaseEstimator):
    def __init__(self, *, scale=1.0, bounds=None, ledger=None, relation="replace_one"):
        self.scale = scale
        self.bounds = bounds
        self.ledger = ledger
        self.relation = relation


class Box(BaseEstimator):
    def __init__(self, *, content=None):
        self.content = content


PROMISE = Guarantee(
    epsilon=1.5,
    delta=1e-5,
    status="conditional",
    conditions=("labels are public",),
    public=("number of rows",),
    events=(GaussianEvent(2.0), RepeatedEvent(EntryEvent(0.1, 1e-3), 3)),
)
PROMISES = [
    PROMISE,
    Guarantee(epsilon=math.inf, events=(NonPrivateEvent(),)),
    Guarantee(epsilon=None, status="refuted", claimed_epsilon=0.3),
    Guarantee(epsilon=1.0, status="testing", relation="add_or_remove_one"),
    Guarantee(
        epsilon=0.5,
        unit="entry",
        entry_bound=0.1,
        record_reading=RecordReading(4, 2.0, math.inf, 1e-3, 0.004),
    ),
]


@pytest.fixture(autouse=True)
def _three_classes(monkeypatch):
    known = {each.__name__: each for each in (Hull, Box)}
    monkeypatch.setattr(models, "_public_class", known.get)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.sfumato"


def through(value, path):
    save(Box(content=value), path)
    return load(path).content


def same(a, b):
    """Equal in value and in type, all the way down."""
    if type(a) is not type(b):
        return False
    if isinstance(a, (np.ndarray, np.generic)):
        layout = getattr(a, "flags", None), getattr(b, "flags", None)
        return (
            a.dtype == b.dtype
            and a.shape == b.shape
            and (a.dtype == object or a.tobytes() == b.tobytes())
            and np.array_equal(a, b, equal_nan=a.dtype.kind in "fc")
            and layout[0].f_contiguous == layout[1].f_contiguous
        )
    if isinstance(a, float):
        return struct.pack("d", a) == struct.pack("d", b)
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return list(a) == list(b) and all(map(same, a.values(), b.values()))
    if isinstance(a, BaseEstimator):
        return same(dict(sorted(vars(a).items())), dict(sorted(vars(b).items())))
    return a == b


# Round trips --------------------------------------------------------------------------------


@pytest.mark.parametrize("promise", PROMISES, ids=lambda p: str(p.status))
def test_guarantee_survives_with_its_sentence(path, promise):
    model = Hull()
    model.guarantee_ = promise
    model._sklearn_output_config = {"transform": "pandas"}
    save(model, path)
    assert load(path)._sklearn_output_config == model._sklearn_output_config
    assert load(path).guarantee_ == promise
    assert header_of(path)["guarantee"]["sentence"] == str(promise)


def test_ledger_is_never_stored_and_words_become_strings(path):
    model = Hull(ledger=object(), relation=Relation.ADD_OR_REMOVE_ONE)
    save(model, path)
    again = load(path)
    assert again.ledger is None
    assert model.ledger is not None
    assert type(again.relation) is str
    assert again.relation == Relation.ADD_OR_REMOVE_ONE


DTYPES = st.one_of(
    hnp.boolean_dtypes(),
    hnp.integer_dtypes(endianness="?"),
    hnp.unsigned_integer_dtypes(),
    hnp.floating_dtypes(endianness="?", sizes=(16, 32, 64)),
    hnp.complex_number_dtypes(sizes=(64, 128)),
    hnp.unicode_string_dtypes(max_len=5),
)
ARRAYS = hnp.arrays(DTYPES, hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3))
STRINGS = hnp.arrays(object, hnp.array_shapes(max_side=3), elements=st.text(max_size=4), fill=None)
PLAIN = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**200), 2**200),
    st.floats().filter(lambda x: not math.isnan(x)) | st.just(math.nan),
    st.text(st.characters(), max_size=6),
)
LEAVES = st.one_of(
    PLAIN,
    ARRAYS,
    ARRAYS.map(np.asfortranarray),
    STRINGS,
    ARRAYS.filter(lambda a: a.size > 0).map(lambda a: a.flat[0]),
    st.sampled_from(PROMISES),
    st.sampled_from([Bounds(norm=1.0), Bounds(lower=(0.0, -1.0), upper=2.0, labels=("a", "b"))]),
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(st.text(max_size=4), inner, max_size=3),
        inner.map(lambda value: Box(content=value)),
    ),
    max_leaves=8,
)


@settings(max_examples=120, deadline=None)
@given(VALUES)
def test_every_supported_value_comes_back_the_same(tmp_path_factory, value):
    folder = tmp_path_factory.getbasetemp()
    again = through(value, folder / "value.sfumato")
    assert same(value, again)
    # Equal models give equal files.
    save(Box(content=again), folder / "again.sfumato")
    assert (folder / "value.sfumato").read_bytes() == (folder / "again.sfumato").read_bytes()


# What cannot be saved -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "value",
    [
        len,
        object(),
        {1, 2},
        b"bytes",
        1j,
        np.random.RandomState(0),
        np.array([None, "a"], dtype=object),
        np.array([b"a"]),
        np.zeros(2, dtype=[("a", int)]),
        np.array(["2020-01-01"], dtype="datetime64[D]"),
        np.ma.masked_array([1.0], [True]),
        {1: "a"},
        struct.Struct("d"),
        LogisticRegression(),
    ],
    ids=lambda value: type(value).__name__,
)
def test_unsupported_value_is_refused_by_name(path, value):
    model = Hull()
    model.parts_ = [1.0, (value,)]
    with pytest.raises(InvalidInputError, match=r"'Hull\.parts_\[1\]\[0\]'"):
        save(model, path)
    assert list(path.parent.iterdir()) == []


def test_other_models_that_cannot_be_saved(path):
    with pytest.raises(InvalidInputError) as caught:
        save(Box(content={"secret": len}), path)
    assert "secret" not in str(caught.value)
    model = Hull()
    model._cache = 1
    with pytest.raises(InvalidInputError, match=r"Hull\._cache"):
        save(model, path)
    model = Hull()
    model.guarantee_ = Guarantee(epsilon=1.0, public=(object(),))
    with pytest.raises(InvalidInputError, match="guarantee"):
        save(model, path)


# Damage -------------------------------------------------------------------------------------


def small_model():
    model = Hull(bounds=Bounds(norm=2.0))
    model.weights_ = np.array([1.0, -2.0])
    model.guarantee_ = Guarantee(epsilon=1.0)
    return model


def refused_or_same(data, path, model):
    path.write_bytes(data)
    try:
        again = load(path)
    except StoredModelError:
        return True
    assert same(model, again)
    return False


def test_every_byte_of_every_member_is_guarded(path):
    save(small_model(), path)
    whole = path.read_bytes()
    with zipfile.ZipFile(path) as archive:
        contents = [archive.read(name) for name in archive.namelist()]
    for content in contents:
        start = whole.index(content)
        for place in range(start, start + len(content)):
            data = bytearray(whole)
            data[place] ^= 0x04
            assert refused_or_same(bytes(data), path, small_model())


def test_every_truncation_is_refused(path):
    save(small_model(), path)
    whole = path.read_bytes()
    for length in range(len(whole)):
        assert refused_or_same(whole[:length], path, small_model())


# Forgery: whole files with right hashes -----------------------------------------------------


def header_of(path):
    with zipfile.ZipFile(path) as archive:
        return json.loads(archive.read("header.json"))


def forge(path, header=None, arrays=None, sums=None, **zip_options):
    """Write a file whose hashes hold, from a changed header or changed arrays."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    members.pop("SHA256SUMS")
    if header is not None:
        members["header.json"] = json.dumps(header).encode()
    members.update(arrays or {})
    sums = sums or "".join(
        f"{hashlib.sha256(m).hexdigest()}  {name}\n" for name, m in members.items()
    )
    with zipfile.ZipFile(path, "w", **zip_options) as archive:
        for name, data in {"SHA256SUMS": sums.encode(), **members}.items():
            archive.writestr(name, data)


def forged_header(path, change):
    save(small_model(), path)
    header = header_of(path)
    change(header)
    forge(path, header)


def test_forging_without_a_change_is_accepted(path):  # negative control of the tests below
    forged_header(path, lambda _: None)
    assert same(load(path), small_model())


@pytest.mark.parametrize("name", ["Ledger", "os.system", "LogisticRegression", "Bounds", "", None])
def test_unknown_class_is_refused(path, name):
    forged_header(path, lambda h: h["model"].update({"class": name}))
    with pytest.raises(StoredModelError, match="public estimator"):
        load(path)


@pytest.mark.parametrize("name", ["__class__", "__dict__", "predict", "distances", "fit"])
def test_attributes_that_are_not_learned_are_refused(path, name):
    forged_header(path, lambda h: h["model"]["learned"].update({name: {"dict": {}}}))
    with pytest.raises(StoredModelError, match="contains the attribute"):
        load(path)


def test_header_and_model_must_state_one_guarantee(path):
    forged_header(path, lambda h: h["guarantee"].update(epsilon=0.01))
    with pytest.raises(StoredModelError, match="different guarantees"):
        load(path)


@pytest.mark.parametrize(
    "change",
    [
        lambda h: h.update(format="something-else"),
        lambda h: h.update(format_version="1"),
        lambda h: h.pop("guarantee"),
        lambda h: h["guarantee"].update(epsilon=-1),
        lambda h: h["guarantee"]["events"].append({"kind": "teleport"}),
        lambda h: h["model"]["parameters"].update(unknown=1),
        lambda h: h["model"]["parameters"].update(scale={"code": "1+1"}),
        lambda h: h["model"]["parameters"].update(scale={"float": "1", "array": "x"}),
        lambda h: h["model"]["parameters"].update(scale={}),
        lambda h: h["model"]["parameters"].update(scale={"array": "arrays/7.npy"}),
        lambda h: h["model"]["parameters"].update(scale={"array": "header.json"}),
        lambda h: h["model"]["parameters"].update(scale=h["model"]["learned"]["weights_"]),
        lambda h: h["model"]["learned"].pop("weights_"),
        lambda h: h["model"]["learned"].update(
            names_={"strings": {"shape": [10**12], "values": ["a"]}}
        ),
        lambda h: h["model"]["learned"].update(names_={"strings": {"shape": [1], "values": [1]}}),
        lambda h: h["model"]["parameters"].update(bounds={"bounds": {"norm": -1.0}}),
    ],
)
def test_forged_headers_are_refused(path, change):
    forged_header(path, change)
    with pytest.raises(StoredModelError):
        load(path)


def test_header_nested_without_end_is_refused(path):
    save(small_model(), path)
    forge(path, arrays={"header.json": b"[" * 100_000})
    with pytest.raises(StoredModelError):
        load(path)


def npy(shape, descr="<f8", data=b""):
    stream = io.BytesIO()
    header = {"descr": descr, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(stream, header)
    return stream.getvalue() + data


@pytest.mark.parametrize(
    "member",
    [
        npy((10**15,)),
        npy((2**40, 2**40)),
        npy((2,), data=bytes(8)),
        npy((1,), data=bytes(16)),
        npy((-1, -2), data=bytes(16)),
        npy((1,), "|O", bytes(8)),
        npy((1,), "|S8", bytes(8)),
        npy((1,), [("a", "<f8")], bytes(8)),
        b"\x93NUMPY\x09\x00" + bytes(64),
        b"",
    ],
)
def test_forged_arrays_are_refused_before_memory_is_taken(path, member, monkeypatch):
    def allocated(*_, **__):
        raise AssertionError("the array was read")

    save(small_model(), path)
    forge(path, arrays={"arrays/0.npy": member})
    monkeypatch.setattr(np.lib.format, "read_array", allocated)
    with pytest.raises(StoredModelError) as caught:
        load(path)
    assert not isinstance(caught.value.__cause__, AssertionError)


def test_zip_bomb_is_refused_before_it_is_unpacked(path):
    save(small_model(), path)
    bomb = npy((10**7,), "|u1", bytes(10**7))
    forge(path, arrays={"arrays/0.npy": bomb}, compression=zipfile.ZIP_DEFLATED)
    assert path.stat().st_size < 20_000
    with pytest.raises(StoredModelError, match="compressed"):
        load(path)


@pytest.mark.parametrize("size", [10**6, 2**32 - 2])
def test_absurd_declared_size_is_refused(path, size):
    save(small_model(), path)
    data = bytearray(path.read_bytes())
    entry = data.rindex(b"PK\x01\x02")  # the last entry of the central directory
    data[entry + 20 : entry + 28] = struct.pack("<II", size, size)
    path.write_bytes(data)
    with pytest.raises(StoredModelError, match="more bytes than it has"):
        load(path)


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_two_members_of_one_name_and_added_members_are_refused(path):
    for name, reason in (("arrays/0.npy", "same name"), ("extra", "added")):
        save(small_model(), path)
        with zipfile.ZipFile(path, "a") as archive:
            archive.writestr(name, b"")
        with pytest.raises(StoredModelError, match=reason):
            load(path)


def test_unused_array_is_refused(path):
    save(small_model(), path)
    forge(path, arrays={"arrays/9.npy": npy((1,), data=bytes(8))})
    with pytest.raises(StoredModelError, match="does not use"):
        load(path)
