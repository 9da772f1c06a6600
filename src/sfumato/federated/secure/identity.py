"""Keys: who signs (Ed25519), what two parties have in common (X25519, HKDF), and masks of it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.exceptions import FederationError, InvalidInputError
from sfumato.federated.secure.agreement import canonical

Words = NDArray[np.uint64]
CHUNK = 2**16  # bytes of a mask that are made at once and stay in the cache
_NOUGHTS = bytes(CHUNK)


def _library() -> tuple[Any, ...]:
    try:
        from cryptography.hazmat.primitives import ciphers, hashes, serialization
        from cryptography.hazmat.primitives.asymmetric import ed25519, x25519
        from cryptography.hazmat.primitives.ciphers import aead
        from cryptography.hazmat.primitives.kdf import hkdf
    except ImportError:
        raise InvalidInputError(
            "Secure sums need the package cryptography: pip install 'sfumato[federated]'."
        ) from None
    return ed25519, x25519, hkdf, hashes, ciphers, aead, serialization


class Identity:
    """The key by which a party signs; the others have registered its public part.

    Parameters
    ----------
    secret : object, optional
        An Ed25519 key of the package cryptography; by default a new one.
    """

    def __init__(self, secret: Any = None) -> None:
        self._secret = _library()[0].Ed25519PrivateKey.generate() if secret is None else secret
        self.public: str = self._secret.public_key().public_bytes_raw().hex()

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Identity:
        """Read the key from a PEM file, as `sfumato.report.certificate.new_key` writes it.

        Parameters
        ----------
        path : path-like
            The file.

        Returns
        -------
        Identity
            The key.
        """
        ed25519, *_, serialization = _library()
        try:
            secret = serialization.load_pem_private_key(Path(path).read_bytes(), password=None)
        except (OSError, ValueError, TypeError):
            secret = None
        if not isinstance(secret, ed25519.Ed25519PrivateKey):
            raise FederationError(
                f"'{path}' does not contain an Ed25519 key; 'new_key' creates one."
            )
        return cls(secret)

    def sign(self, text: bytes) -> str:
        """Sign a text.

        Parameters
        ----------
        text : bytes
            What is signed.

        Returns
        -------
        str
            The signature.
        """
        signature: bytes = self._secret.sign(text)
        return signature.hex()

    def __repr__(self) -> str:
        return f"Identity({self.public[:16]}...)"


def is_signed(text: bytes, signature: Any, public: str) -> bool:
    """Return whether the owner of a public key signed a text."""
    try:
        key = _library()[0].Ed25519PublicKey.from_public_bytes(bytes.fromhex(public))
        key.verify(bytes.fromhex(signature), text)
    except InvalidInputError:
        raise
    except Exception:  # of the library, or of what is no signature
        return False
    return True


def new_secret() -> bytes:
    """Draw a secret X25519 key."""
    secret: bytes = _library()[1].X25519PrivateKey.generate().private_bytes_raw()
    return secret


def public_of(secret: bytes) -> str:
    """Return the public part of a secret X25519 key."""
    key = _library()[1].X25519PrivateKey.from_private_bytes(secret)
    public: bytes = key.public_key().public_bytes_raw()
    return public.hex()


def shared_key(secret: bytes, other: str, *, transcript: str, use: str, pair: list[str]) -> bytes:
    """Return the key that two parties have in common, for one use in one session."""
    x25519 = _library()[1]
    try:
        common = x25519.X25519PrivateKey.from_private_bytes(secret).exchange(
            x25519.X25519PublicKey.from_public_bytes(bytes.fromhex(other))
        )
    except (ValueError, TypeError):  # also of a key whose multiples are all 0
        raise FederationError("A party sent something that is not a key.") from None
    return derived(common, transcript=transcript, use=[use, *pair])


def derived(secret: bytes, *, transcript: str, use: list[str]) -> bytes:
    """Derive a key of 32 bytes, bound to a session and a use."""
    _, _, hkdf, hashes, *_ = _library()
    key: bytes = hkdf.HKDF(
        algorithm=hashes.SHA256(),
        length=32,
        salt=bytes.fromhex(transcript),
        info=b"sfumato secure sum 1" + canonical(use),
    ).derive(secret)
    return key


def sealed(text: bytes, key: bytes, *, context: bytes) -> str:
    """Encrypt and authenticate a text under a key that is used for it alone."""
    box: bytes = _library()[5].ChaCha20Poly1305(key).encrypt(bytes(12), text, context)
    return box.hex()


def opened(box: Any, key: bytes, *, context: bytes) -> bytes:
    """Open what `sealed` gave, or refuse it."""
    try:
        text: bytes = (
            _library()[5].ChaCha20Poly1305(key).decrypt(bytes(12), bytes.fromhex(box), context)
        )
    except Exception:
        raise FederationError("Shares were changed on their way, or are for others.") from None
    return text


def add_mask(words: Words, key: bytes, *, subtract: bool = False) -> None:
    """Add the stream of a key to the words, in place and modulo 2**64, or subtract it.

    The stream is that of AES-256 in counter mode; a key makes one stream in its life.
    """
    ciphers = _library()[4]
    cipher = ciphers.Cipher(ciphers.algorithms.AES(key), ciphers.modes.CTR(bytes(16)))
    stream, buffer = cipher.encryptor(), bytearray(CHUNK + 15)
    made = np.frombuffer(buffer, dtype="<u8", count=CHUNK // 8)
    for start in range(0, len(words), len(made)):
        part = words[start : start + len(made)]
        stream.update_into(_NOUGHTS, buffer)
        if subtract:
            part -= made[: len(part)]
        else:
            part += made[: len(part)]
