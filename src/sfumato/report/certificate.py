"""Certificates: what a file promises, signed, so that others can check it without Sfumato.

A certificate is one canonical text, JSON with sorted keys, no spaces and ASCII only; its Ed25519
signature covers all of it but itself. A certificate in any other text is refused, even where it
reads the same, so that every change of a byte is seen. The package `cryptography` does the
mathematics: install ``sfumato[certificate]``.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import cache, partial
from pathlib import Path
from typing import Any

from sfumato.exceptions import InvalidInputError, SfumatoError
from sfumato.ledger.dataset_budget import DatasetBudget
from sfumato.ledger.receipt import check_same_unit_and_adjacency
from sfumato.models.saving import CERTIFICATE, open_stored, running_version
from sfumato.privacy.composition import epsilon_spent, explained_by_events
from sfumato.privacy.distributions import pld_curve, unnamed
from sfumato.privacy.events import GaussianEvent, flatten
from sfumato.privacy.gaussian import delta_from_mu
from sfumato.privacy.guarantee import Guarantee
from sfumato.tables.files import FORMATS, TableFile, metadata_beside, parse_note

FORMAT = "sfumato-certificate"
FORMAT_VERSION = 1
CURVE_POINTS = 13

ALGORITHM = "Ed25519"


class CertificateError(SfumatoError):
    """A certificate was changed, is not signed by the key given, or speaks of another file."""


# What it says ------------------------------------------------------------------------------------


def certificate_of(
    file: str | os.PathLike[str],
    *,
    budget: DatasetBudget | None = None,
    purpose: str | None = None,
    by: str | None = None,
) -> dict[str, Any]:
    """Return the content of a certificate; it is not signed yet."""
    promise = promise_in(file)
    guarantee = Guarantee.from_dict(promise["guarantee"])
    ledger, charge = _ledger(budget, guarantee)
    plain = guarantee.to_dict()
    return {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "issued": datetime.now(UTC).isoformat(timespec="seconds"),
        "subject": {**subject_of(file), "class": promise["class"]},
        **{name: plain[name] for name in ("unit", "relation", "status", "epsilon", "delta")},
        "statement": plain["sentence"],
        "attacker": guarantee.attacker.to_dict(),
        "loss_curve": _curve(guarantee),
        "events": plain["events"],
        "public": plain["public"],
        "bounds": promise["bounds"],
        "conditions": plain["conditions"],
        "entry_bound": plain["entry_bound"],
        "guarantee": promise["guarantee"],  # to the letter, as the file states it
        "note": promise["note"],  # what else the file states of its figures
        "software": {
            "name": "sfumato",
            "version": running_version(),
            "code_sha256": code_fingerprint(),
        },
        "data": None,  # of format version 1: no fingerprint of records is made any more
        "ledger": ledger,
        "purpose": purpose or charge.get("purpose"),
        "by": by or charge.get("by"),
    }


def _ledger(
    budget: DatasetBudget | None, guarantee: Guarantee
) -> tuple[dict[str, Any] | None, dict[str, Any]]:
    """Return what the ledger says now, and the charge that paid for these events."""
    if budget is None:
        return None, {}
    paid = [each for each in budget.history() if each.mark in guarantee.charges]
    if not paid:
        raise InvalidInputError(
            f"The budget of '{budget.name}' has no charge for the releases of this file. Give the "
            "ledger that paid for it, or none."
        )
    total, stated = budget.total, flatten(guarantee.events)
    check_same_unit_and_adjacency(
        "budget", total.unit, total.relation, guarantee.unit, guarantee.relation
    )
    charged = flatten(event for each in paid for event in each.events)
    if any(stated.get(event, 0) < times for event, times in charged.items()):
        raise InvalidInputError(
            f"The budget of '{budget.name}' was charged for more than this file states: its "
            "guarantee was changed. Nothing was certified."
        )
    statement, last = budget.statement(), paid[-1]
    return {
        "dataset": budget.name,
        "budget_epsilon": statement.budget.epsilon,
        "budget_delta": statement.budget.delta,
        "spent": statement.spent,
        "charges": statement.charges,
        "head": statement.head,
        "charged_at": last.time,
        "charge_hash": last.hash,
    }, {"purpose": last.purpose, "by": last.by}


def _curve(guarantee: Guarantee) -> list[dict[str, float]]:
    """Return points of delta against epsilon, none below the truth; none where nothing is known."""
    if guarantee.epsilon is None or not math.isfinite(guarantee.epsilon):
        return []
    stated = {"epsilon": guarantee.epsilon, "delta": guarantee.delta}
    if not explained_by_events(guarantee):
        return [stated]
    counts = unnamed(flatten(guarantee.events))
    curve: Callable[[float], float]
    if all(isinstance(event, GaussianEvent) for event in counts):
        squares = math.fsum(n / e.noise_multiplier**2 for e, n in counts.items())  # type: ignore[attr-defined]
        curve = partial(delta_from_mu, math.sqrt(squares) * (1 + 1e-12))
    else:
        curve = pld_curve(counts)
    steps = [2 * guarantee.epsilon * i / (CURVE_POINTS - 1) for i in range(CURVE_POINTS)]
    points = [{"epsilon": each, "delta": float(curve(each))} for each in steps]
    return sorted([*points, stated], key=lambda point: point["epsilon"])


@cache
def code_fingerprint() -> str:
    """Hash the source of the package that runs: every Python file, its place and its bytes."""
    root, found = Path(__file__).parents[1], hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        found.update(f"{path.relative_to(root).as_posix()}\n".encode())
        found.update(hashlib.sha256(path.read_bytes()).digest())
    return found.hexdigest()


# Signing and checking -----------------------------------------------------------------------------


def new_key(path: str | os.PathLike[str]) -> str:
    """Make a key for signatures: the secret in one file, the public part next to it."""
    ed25519, serialization = _library()
    secret = ed25519.Ed25519PrivateKey.generate()
    public: str = secret.public_key().public_bytes_raw().hex()
    pem = secret.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    try:
        place = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise InvalidInputError(
            f"There is a file '{path}' already; a key is never replaced."
        ) from None
    with os.fdopen(place, "wb") as file:
        file.write(pem)
    Path(f"{path}.pub").write_text(public + "\n")
    return public


def read_key(path: str | os.PathLike[str]) -> Any:
    """Read the secret key of a file that `new_key` wrote."""
    ed25519, serialization = _library()
    try:
        secret = serialization.load_pem_private_key(Path(path).read_bytes(), password=None)
    except (OSError, ValueError, TypeError):
        secret = None
    if not isinstance(secret, ed25519.Ed25519PrivateKey):
        raise InvalidInputError(f"'{path}' does not contain an Ed25519 key; 'new_key' creates one.")
    return secret


def signed(certificate: Mapping[str, Any], key: str | os.PathLike[str]) -> dict[str, Any]:
    """Sign the content of a certificate."""
    secret = read_key(key)
    content = {name: value for name, value in certificate.items() if name != "signature"}
    signature = {
        "algorithm": ALGORITHM,
        "public_key": secret.public_key().public_bytes_raw().hex(),
        "value": secret.sign(_canonical(content)).hex(),
    }
    return {**content, "signature": signature}


def written(certificate: Mapping[str, Any]) -> str:
    """Return the one text of a certificate."""
    return _canonical(certificate).decode()


def read_certificate(text: str | bytes) -> dict[str, Any]:
    """Read a certificate and check its form; its signature is checked by `verified`."""
    data = text.encode() if isinstance(text, str) else text
    try:
        found = json.loads(data)
        is_ours = found["format"] == FORMAT and isinstance(found["signature"], dict)
    except (ValueError, KeyError, TypeError):
        raise CertificateError("This is not a certificate, or it was changed.") from None
    if not is_ours or _canonical(found) != data:
        raise CertificateError("The certificate was changed: it is not in its canonical form.")
    if found.get("format_version") != FORMAT_VERSION:
        raise CertificateError(
            f"The certificate has format version {found.get('format_version')}; this Sfumato reads "
            f"version {FORMAT_VERSION}."
        )
    certificate: dict[str, Any] = found
    return certificate


def verified(
    text: str | bytes, *, public_key: str | None = None, file: str | os.PathLike[str] | None = None
) -> dict[str, Any]:
    """Check a certificate: its form, its signature, who signed, and the file it speaks of."""
    ed25519, _ = _library()
    found = read_certificate(text)
    signature = found["signature"]
    content = {name: value for name, value in found.items() if name != "signature"}
    try:
        if signature["algorithm"] != ALGORITHM or set(signature) != {
            "algorithm",
            "public_key",
            "value",
        }:
            raise ValueError
        public, value = (bytes.fromhex(signature[name]) for name in ("public_key", "value"))
        if (public.hex(), value.hex()) != (signature["public_key"], signature["value"]):
            raise ValueError  # fromhex skips spaces
        ed25519.Ed25519PublicKey.from_public_bytes(public).verify(value, _canonical(content))
    except Exception:  # of the library, or of a value that is no signature
        raise CertificateError(
            "The signature does not match: the certificate was changed."
        ) from None
    if public_key is not None and signature["public_key"] != public_key.strip().lower():
        raise CertificateError("The certificate is signed by a different key from the one given.")
    if file is None:
        return found
    if subject_of(file)["sha256"] != found["subject"]["sha256"]:
        raise CertificateError(f"The certificate is about other content than that of '{file}'.")
    promise = promise_in(file)
    promised, note = promise["guarantee"], promise["note"]
    stated = Guarantee.from_dict(promised).to_dict()
    names = ("unit", "relation", "status", "epsilon", "delta", "conditions", "events", "public")
    # 0.2.0 has signed no whole guarantee, nor what else a table states
    is_other = found.get("guarantee", promised) != promised or found.get("note", note) != note
    is_other |= found["subject"]["class"] != promise["class"]
    is_other |= found["bounds"] != promise["bounds"]
    if is_other or any(stated[name] != found[name] for name in names):
        raise CertificateError(
            f"The certificate states a different guarantee from '{file}' states."
        )
    return found


def _canonical(value: Any) -> bytes:
    try:
        return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()
    except ValueError:
        raise CertificateError("A certificate can contain only finite numbers.") from None


def _library() -> tuple[Any, Any]:
    try:
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError:
        raise InvalidInputError(
            "Certificates need the package cryptography: pip install 'sfumato[certificate]'."
        ) from None
    return ed25519, serialization


# The file that it speaks of -----------------------------------------------------------------------


def subject_of(file: str | os.PathLike[str]) -> dict[str, str]:
    """Return the name of a file and of its content, without a certificate that it may carry."""
    path = Path(file)
    is_table = path.suffix.lower() in FORMATS
    digest = _of_table(path) if is_table else _of_model(path)
    return {"file": path.name, "kind": "table" if is_table else "model", "sha256": digest}


def _of_model(path: Path) -> str:
    """Hash the list of the hashes of all members but the certificate."""
    with open_stored(path) as members:
        for name in members.sums:
            members.read(name)  # each is what its hash says
        kept = {name: digest for name, digest in members.sums.items() if name != CERTIFICATE}
    lines = [f"{digest}  {name}\n" for name, digest in kept.items()]
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def _of_table(path: Path) -> str:
    """Hash names, types and values of a table that carries metadata, or the bytes of a text."""
    if path.suffix.lower() != ".parquet":
        return hashlib.sha256(path.read_bytes()).hexdigest()
    table = TableFile(path).read(may_be_empty=True)
    found = hashlib.sha256()
    for name in table.column_names:
        column = table.column(name)
        values = [name, str(column.type), column.to_pylist()]
        found.update(json.dumps(values, default=str).encode() + b"\n")
    return found.hexdigest()


def promise_in(file: str | os.PathLike[str]) -> dict[str, Any]:
    """Return class, guarantee and bounds that a file states; its releases cost no more."""
    found = _stated_in(Path(file))
    stated = Guarantee.from_dict(found["guarantee"])
    most = math.inf if stated.epsilon is None else stated.epsilon * (1 + 1e-6)
    cost = epsilon_spent(stated.events, stated.delta, stated.relation, enough=most)
    if cost > most:
        raise InvalidInputError(
            f"'{file}' states epsilon {stated.epsilon:g} at delta {stated.delta:g}, but its "
            f"releases cost {cost:g}: its guarantee was changed."
        )
    return found


def _stated_in(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise InvalidInputError(f"There is no file '{path}'.")
    if path.suffix.lower() in FORMATS:
        beside = metadata_beside(path)
        has_note = beside.is_file()
        try:
            stored: Any = (
                parse_note(beside.read_bytes(), beside) if has_note else TableFile(path).metadata()
            )
            known = {name: stored.pop(name) for name in ("class", "guarantee")}
            return {**known, "bounds": stored.pop("bounds", None), "note": stored}
        except (TypeError, KeyError, AttributeError):
            raise InvalidInputError(
                f"'{path}' contains no guarantee: it is an ordinary table, or was rewritten "
                "afterwards."
            ) from None
    with open_stored(path) as members:
        header = members.header()
    if header["guarantee"] is None:
        raise InvalidInputError(f"'{path}' states no guarantee: it is not private.")
    return {
        "class": header["model"]["class"],
        "sfumato_version": header["sfumato_version"],
        "guarantee": header["guarantee"],
        "bounds": header["model"]["parameters"].get("bounds"),
        "note": {},  # all that it states is part of its hash
    }
