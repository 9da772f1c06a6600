"""Signing and checking certificates: Ed25519 over one canonical text.

The text is JSON with sorted keys, no spaces and ASCII only; the signature covers all of it but
itself. A certificate in any other text is refused, even where it reads the same, so that every
change of a byte is seen. The package `cryptography` does the mathematics: install
``sfumato[certificate]``.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

from sfumato.certificates.content import FORMAT, FORMAT_VERSION
from sfumato.certificates.subjects import promise_in, subject_of
from sfumato.exceptions import InvalidInputError, SfumatoError
from sfumato.guarantee import Guarantee

__all__ = [
    "CertificateError",
    "new_key",
    "read_certificate",
    "schema",
    "signed",
    "verified",
    "written",
]

ALGORITHM = "Ed25519"


class CertificateError(SfumatoError):
    """A certificate was changed, is not signed by the key given, or speaks of another file."""


def schema() -> dict[str, Any]:
    """Give the published JSON schema of certificates."""
    text = files("sfumato.certificates").joinpath("schema-1.json").read_text(encoding="utf-8")
    found: dict[str, Any] = json.loads(text)
    return found


def new_key(path: str | os.PathLike[str]) -> str:
    """Make a key for signatures: the secret in one file, the public part beside it.

    Parameters
    ----------
    path : path-like
        The file of the secret key, which must not exist; the public key goes to ``path + ".pub"``.

    Returns
    -------
    str
        The public key, as certificates name it.
    """
    ed25519, serialization = _library()
    secret = ed25519.Ed25519PrivateKey.generate()
    raw = serialization.Encoding.Raw, serialization.PublicFormat.Raw
    public: str = secret.public_key().public_bytes(*raw).hex()
    pem = secret.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
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


def signed(certificate: Mapping[str, Any], key: str | os.PathLike[str]) -> dict[str, Any]:
    """Sign the content of a certificate.

    Parameters
    ----------
    certificate : mapping
        What `certificate_of` gave.
    key : path-like
        The secret key, a PEM file; see `new_key`.

    Returns
    -------
    dict
        The certificate with its signature.
    """
    ed25519, serialization = _library()
    try:
        secret = serialization.load_pem_private_key(Path(key).read_bytes(), password=None)
    except FileNotFoundError:
        raise InvalidInputError(f"There is no key '{key}'; 'new_key' creates one.") from None
    except (ValueError, TypeError):
        secret = None
    if not isinstance(secret, ed25519.Ed25519PrivateKey):
        raise InvalidInputError(f"'{key}' does not contain an Ed25519 key.")
    raw = serialization.Encoding.Raw, serialization.PublicFormat.Raw
    content = {name: value for name, value in certificate.items() if name != "signature"}
    signature = {
        "algorithm": ALGORITHM,
        "public_key": secret.public_key().public_bytes(*raw).hex(),
        "value": secret.sign(_canonical(content)).hex(),
    }
    return {**content, "signature": signature}


def written(certificate: Mapping[str, Any]) -> str:
    """Give the one text of a certificate.

    Parameters
    ----------
    certificate : mapping
        A signed certificate.

    Returns
    -------
    str
        Its canonical JSON.
    """
    return _canonical(certificate).decode()


def read_certificate(text: str | bytes) -> dict[str, Any]:
    """Read a certificate and check its form; its signature is checked by `verified`.

    Parameters
    ----------
    text : str or bytes
        The content of the file.

    Returns
    -------
    dict
        The certificate.
    """
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
    text: str | bytes,
    *,
    public_key: str | None = None,
    file: str | os.PathLike[str] | None = None,
) -> dict[str, Any]:
    """Check a certificate: its form, its signature, who signed, and the file it speaks of.

    Parameters
    ----------
    text : str or bytes
        The certificate.
    public_key : str, optional
        The key of the signer whom you trust; without it the signature shows that nothing was
        changed since somebody signed.
    file : path-like, optional
        The file that it shall speak of.

    Returns
    -------
    dict
        The certificate.

    Raises
    ------
    CertificateError
        If anything is not valid.
    """
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
    if file is not None:
        _check_subject(found, file)
    return found


def _check_subject(certificate: Mapping[str, Any], file: str | os.PathLike[str]) -> None:
    subject = certificate["subject"]
    by_another_program = subject["kind"] == "file"
    if subject_of(file, by_another_program=by_another_program)["sha256"] != subject["sha256"]:
        raise CertificateError(f"The certificate is about other content than that of '{file}'.")
    if by_another_program:  # states nothing itself
        return
    promise = promise_in(file)
    stated = Guarantee.from_dict(promise["guarantee"]).to_dict()
    names = ("unit", "relation", "status", "epsilon", "delta", "conditions", "events")
    if any(stated[name] != certificate[name] for name in names):
        raise CertificateError(
            f"The certificate states a different guarantee from '{file}' states."
        )


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
