"""Secure sums: a coordinator learns the total of the parties' numbers, and nothing else of them.

The protocol is that of Bonawitz et al. (2017) against an active coordinator: masks for every pair
of parties cancel in the total, a mask of one's own hides a late reply, and both can be rebuilt
from shares when parties vanish. Read `Agreement`, then a party's side (`Member`), then the other
one (`SumCoordinator`); neither knows who carries the messages.
"""

from __future__ import annotations

import copy
import hashlib
import json
import os
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.core.atomic_file import sync_folder
from sfumato.exceptions import FederationError, InvalidInputError
from sfumato.report.certificate import read_key

try:
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ed25519, x25519
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF
except ImportError:  # noisy sums do without: see `Identity`
    ed25519 = None

Words = NDArray[np.uint64]
Advert = Mapping[str, str]

MODULUS_BITS = 64
MIN_NEIGHBOURS = 16  # parties with whom each has masks, or all if there are fewer
CHUNK = 2**16  # bytes of a mask that are made at once and stay in the cache
PRIME = 2**521 - 1  # of the field of Shamir's shares
SECRET_BYTES, SHARE_BYTES = 32, 66


@dataclass(frozen=True)
class Agreement:
    """The public terms of one secure sum: the same text for all parties, hashed into every key.

    task, number: Name of the task, and which of its sums this is; each is made once.
    parties: Who takes part, and the public key by which each signs.
    size: Numbers that each party adds.
    largest: No party's number is larger in magnitude, noise included: so the total never wraps.
    statistic: Digest of what is added up, over which rows, on which grid.
    colluding: Parties that may work with the coordinator without breaking the promise.
    dropouts: Parties that may vanish before the end.

    A list of parties is signed by ``threshold = P - dropouts`` of them. Two different lists would
    need an honest party that signs twice if ``2 threshold > P + colluding``; anything else is
    refused. A party shares masks with its neighbours, 16 others or more where needed: those that
    come next on both sides of a ring. Such a graph stays in one piece when fewer parties are taken
    away than each has neighbours, so that nothing but the total of the honest ones can be told from
    their masked numbers.
    """

    task: str
    number: int
    parties: Mapping[str, str]
    size: int
    largest: int
    statistic: str = ""
    colluding: int = 1
    dropouts: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "parties", dict(sorted(self.parties.items())))
        n_parties, lost = len(self.parties), self.colluding + self.dropouts
        whole = (self.number, self.size, self.largest, self.colluding, self.dropouts)
        if not all(isinstance(each, int) and each >= 0 for each in whole) or self.size < 1:
            raise FederationError("The numbers of a secure sum must be non-negative integers.")
        if n_parties < 2:
            raise FederationError("A secure sum needs at least two parties.")
        if len(set(self.parties.values())) != n_parties:
            raise FederationError("Two parties of a secure sum have the same key.")
        if 2 * self.threshold <= n_parties + self.colluding or lost >= n_parties:
            raise FederationError(
                f"{n_parties} parties cannot tolerate {self.dropouts} dropouts and "
                f"{self.colluding} colluding: more than (parties + colluding) / 2 must "
                "stay to the end."
            )
        if n_parties * self.largest >= 2 ** (MODULUS_BITS - 1):
            raise FederationError("The total of this many parties could wrap around the modulus.")

    @property
    def threshold(self) -> int:
        """Parties that must stay to the end, sign one list and give shares."""
        return len(self.parties) - self.dropouts

    @property
    def noisy_parties(self) -> int:
        """Parties whose noise is counted on."""
        return len(self.parties) - self.dropouts - self.colluding

    def neighbours_of(self, name: str) -> list[str]:
        """Return the parties with whom a party shares masks: the next ones on both sides."""
        names = list(self.parties)
        wanted = max(MIN_NEIGHBOURS, self.colluding + self.dropouts + 1)
        half = -(-min(wanted, len(names) - 1) // 2)
        here = names.index(name)
        near = {names[(here + step) % len(names)] for step in range(-half, half + 1)}
        return sorted(near - {name})

    @cached_property
    def digest(self) -> str:
        """Digest of all of it; computed once: a hundred parties ask a hundred times each."""
        return digest_of(asdict(self))


def canonical(value: Any) -> bytes:
    """Return the one text of a JSON value."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def digest_of(value: Any) -> str:
    """Return the SHA-256 of a JSON value, in hexadecimal digits."""
    return hashlib.sha256(canonical(value)).hexdigest()


# Keys --------------------------------------------------------------------------------------------


class Identity:
    """The Ed25519 key by which a party signs; the others have registered its public part.

    secret: A key of the package cryptography; by default a new one.
    """

    def __init__(self, secret: Any = None) -> None:
        if ed25519 is None:
            raise InvalidInputError(
                "Secure sums need the package cryptography: pip install 'sfumato[federated]'."
            )
        self._secret = ed25519.Ed25519PrivateKey.generate() if secret is None else secret
        self.public: str = self._secret.public_key().public_bytes_raw().hex()

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Identity:
        """Read the key from a PEM file, as `sfumato.report.certificate.new_key` writes it."""
        return cls(read_key(path))

    def sign(self, text: bytes) -> str:
        """Return the signature of a text."""
        signature: bytes = self._secret.sign(text)
        return signature.hex()


def is_signed(text: bytes, signature: Any, public: str) -> bool:
    """Return whether the owner of a public key signed a text."""
    try:
        key = ed25519.Ed25519PublicKey.from_public_bytes(bytes.fromhex(public))
        key.verify(bytes.fromhex(signature), text)
    except Exception:  # of the library, or of what is no signature
        return False
    return True


def public_of(secret: bytes) -> str:
    """Return the public part of a secret X25519 key."""
    key = x25519.X25519PrivateKey.from_private_bytes(secret).public_key()
    return bytes(key.public_bytes_raw()).hex()


def shared_key(secret: bytes, other: str, *, transcript: str, use: str, pair: list[str]) -> bytes:
    """Return the key that two parties have in common, for one use in one session."""
    try:
        common = x25519.X25519PrivateKey.from_private_bytes(secret).exchange(
            x25519.X25519PublicKey.from_public_bytes(bytes.fromhex(other))
        )
    except (ValueError, TypeError):  # also of a key whose multiples are all 0
        raise FederationError("A party sent something that is not a key.") from None
    return derive(common, transcript=transcript, use=[use, *pair])


def derive(secret: bytes, *, transcript: str, use: list[str]) -> bytes:
    """Return a key of 32 bytes, bound to a session and a use."""
    salt, info = bytes.fromhex(transcript), b"sfumato secure sum 1" + canonical(use)
    return bytes(HKDF(algorithm=hashes.SHA256(), length=32, salt=salt, info=info).derive(secret))


def pair_mask_key(
    secret: bytes, adverts: Mapping[str, Advert], transcript: str, name: str, other: str
) -> bytes:
    """Return the key of the mask of two parties, from the secret of one of them."""
    pair = sorted([name, other])
    theirs = adverts[other]["mask"]
    return shared_key(secret, theirs, transcript=transcript, use="pair mask", pair=pair)


def add_mask(words: Words, key: bytes, *, subtract: bool = False) -> None:
    """Add the stream of a key to the words, in place and modulo 2**64, or subtract it.

    The stream is that of AES-256 in counter mode; a key makes one stream in its life.
    """
    stream = Cipher(algorithms.AES(key), modes.CTR(bytes(16))).encryptor()
    buffer, zeros = bytearray(CHUNK + 15), bytes(CHUNK)
    made = np.frombuffer(buffer, dtype="<u8", count=CHUNK // 8)
    for start in range(0, len(words), len(made)):
        part = words[start : start + len(made)]
        stream.update_into(zeros, buffer)
        if subtract:
            part -= made[: len(part)]
        else:
            part += made[: len(part)]


# Shamir's shares: any `threshold` of them give a secret of 32 bytes, fewer say nothing -----------


def shares_of(secret: bytes, *, threshold: int, places: int) -> list[bytes]:
    """Return the shares at the places 1, 2, ..., `places`.

    The secret is the value at 0 of a random polynomial of degree ``threshold - 1`` over the field
    of ``2**521 - 1`` elements, a share its value at another place.
    """
    if len(secret) != SECRET_BYTES or not 1 <= threshold <= places:
        raise FederationError("A secret has 32 bytes, and its threshold is at most its shares.")
    coefficients = [int.from_bytes(secret, "big")]
    coefficients += [secrets.randbelow(PRIME) for _ in range(threshold - 1)]
    shares = []
    for place in range(1, places + 1):
        value = 0
        for coefficient in reversed(coefficients):
            value = (value * place + coefficient) % PRIME
        shares.append(value.to_bytes(SHARE_BYTES, "big"))
    return shares


def rebuild(shares: Mapping[int, bytes], *, threshold: int) -> bytes:
    """Return the secret of shares by their places."""
    if len(shares) < threshold:
        raise FederationError(f"{len(shares)} shares were given, {threshold} are needed.")
    points = [(place, int.from_bytes(share, "big")) for place, share in sorted(shares.items())]
    used = points[:threshold]

    def value_at(place: int) -> int:
        weights = _lagrange_weights(tuple(here for here, _ in used), place)
        return sum(value * weight for (_, value), weight in zip(used, weights, strict=True)) % PRIME

    secret = value_at(0)
    agree = all(value_at(place) == value for place, value in points[threshold:])
    if not agree or secret >= 2 ** (8 * SECRET_BYTES):
        raise FederationError("Shares of one secret do not agree with one another.")
    return secret.to_bytes(SECRET_BYTES, "big")


@lru_cache(maxsize=256)
def _lagrange_weights(places: tuple[int, ...], place: int) -> tuple[int, ...]:
    """All secrets of a session are rebuilt at the same places."""
    found = []
    for here in places:
        above = below = 1
        for other in places:
            if other != here:
                above = above * (place - other) % PRIME
                below = below * (here - other) % PRIME
        found.append(above * pow(below, -1, PRIME) % PRIME)
    return tuple(found)


# A party -----------------------------------------------------------------------------------------


class Journal:
    """Decisions that a party makes once, kept in a folder, whatever session or process asks."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self._folder = Path(folder)
        self._folder.mkdir(parents=True, exist_ok=True)

    def decide(self, question: str, answer: str, refusal: str) -> None:
        """Write down the answer to a question, or refuse one that differs from the first."""
        # A digest: the coordinator chooses names and must not choose a path.
        name = hashlib.sha256(question.encode()).hexdigest()[:32]
        aside, path = self._folder / f"{name}.{os.getpid()}", self._folder / f"{name}.decision"
        with aside.open("w", encoding="utf-8") as file:
            file.write(answer)
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(aside, path)  # fails where another process was first; never half written
            sync_folder(path)  # a signature is sent next, and a power cut must not undo its reason
        except FileExistsError:
            if path.read_text(encoding="utf-8") != answer:
                raise FederationError(refusal) from None
        finally:
            aside.unlink()


class Member:
    """One party in one session of a secure sum.

    registered: The public keys that the party has of the others.
    journal: What it has agreed to and signed before.

    The steps are `advertise`, `share`, `mask`, `confirm`, `reveal`. A step that is asked for again
    with the same message gives the same answer; with another message it is refused. Secrets are
    drawn for this session alone, so no mask is ever used twice.
    """

    _secrets = ("_cipher_secret", "_mask_secret", "_seed")
    _given = ("name", "agreement", "_identity", "_journal")

    def __init__(
        self,
        name: str,
        identity: Identity,
        agreement: Agreement,
        registered: Mapping[str, str],
        journal: Journal,
    ) -> None:
        self.name, self.agreement = name, agreement
        self._identity, self._journal = identity, journal
        for party, key in agreement.parties.items():
            if registered.get(party) != key:
                raise self._refusal(f"it has not registered this key of {party}.")
        if agreement.parties.get(name) != identity.public:
            raise self._refusal("the agreement has a different key for it.")
        new = x25519.X25519PrivateKey.generate
        self._cipher_secret, self._mask_secret = (
            new().private_bytes_raw(),
            new().private_bytes_raw(),
        )
        self._seed = secrets.token_bytes(SECRET_BYTES)
        self._transcript = ""
        self._adverts: dict[str, dict[str, str]] = {}
        self._shares: dict[str, dict[str, str]] = {}  # of the others' secrets, by their owner
        self._asked: dict[str, str] = {}  # digest of the message that each step has answered
        self._answers: dict[str, Any] = {}
        self._included: list[str] = []

    def state(self) -> dict[str, Any]:
        """Return, as JSON, what the session needs to go on in another process; it holds secrets."""
        kept = {key: value for key, value in vars(self).items() if key not in self._given}
        for key in self._secrets:
            kept[key] = kept[key].hex()
        # Masked numbers are made again from the same keys and the same numbers, to the bit.
        kept["_answers"] = {key: each for key, each in self._answers.items() if key != "mask"}
        return copy.deepcopy(kept)

    def resume(self, state: Mapping[str, Any]) -> Member:
        """Go on with a session that was begun in another process, from its `state`."""
        for key, value in copy.deepcopy(dict(state)).items():
            setattr(self, key, bytes.fromhex(value) if key in self._secrets else value)
        return self

    def advertise(self) -> dict[str, str]:
        """Return the public keys of this session, signed."""
        keys = {"cipher": public_of(self._cipher_secret), "mask": public_of(self._mask_secret)}
        return {**keys, "signature": self._identity.sign(self._advert_text(self.name, keys))}

    def share(self, adverts: Mapping[str, Advert]) -> dict[str, str]:
        """Check the keys that all parties advertise; return a sealed share of the own secrets."""
        self._require_new("share", dict(adverts))
        if "share" in self._answers:
            return dict(self._answers["share"])
        agreement = self.agreement
        if set(adverts) != set(agreement.parties):
            raise self._refusal("keys of other parties were sent.")
        for name, advert in adverts.items():
            keys = {use: str(advert.get(use)) for use in ("cipher", "mask")}
            text = self._advert_text(name, keys)
            if not is_signed(text, advert.get("signature"), agreement.parties[name]):
                raise self._refusal(f"{name} did not sign its keys.")
        if dict(adverts[self.name]) != self.advertise():
            raise self._refusal("its own keys were changed.")
        used = [advert[use] for advert in adverts.values() for use in ("cipher", "mask")]
        if len(set(used)) != len(used):
            raise self._refusal("a key is used twice.")
        # [X1] all keys of the session depend on everybody's view of agreement and keys
        self._transcript = transcript_of(agreement, adverts)
        self._adverts = {name: dict(advert) for name, advert in adverts.items()}
        parts = [
            shares_of(secret, threshold=agreement.threshold, places=len(agreement.parties))
            for secret in (self._seed, self._mask_secret)
        ]
        boxes = {}
        for name, seed, key in zip(agreement.parties, *parts, strict=True):
            if name == self.name:
                self._shares[name] = {"seed": seed.hex(), "key": key.hex()}
            else:  # under a key that is used for this box alone
                box, context = self._box(name, to=name)
                boxes[name] = box.encrypt(bytes(12), seed + key, context).hex()
        self._answers["share"] = boxes
        self._asked["share"] = digest_of(dict(adverts))
        return dict(boxes)

    def mask(self, boxes: Mapping[str, str], cells: NDArray[np.int64]) -> Words:
        """Take the others' sealed shares, by sender, and return the own numbers under masks."""
        self._require_new("mask", dict(boxes), after="share")
        if "mask" in self._answers:
            return np.array(self._answers["mask"])
        agreement = self.agreement
        senders = sorted({*boxes, self.name})
        if self.name in boxes or not set(senders) <= set(agreement.parties):
            raise self._refusal("shares from parties outside this sum were sent.")
        self._require_enough(senders)
        numbers = np.ascontiguousarray(cells, dtype=np.int64).ravel()
        if len(numbers) != agreement.size:
            raise FederationError(f"{self.name}: the sum does not have the agreed size.")
        if max(int(numbers.max()), -int(numbers.min())) > agreement.largest:
            raise FederationError(f"{self.name}: a number is larger than was agreed on.")
        # [X2] one agreement for one sum, in whatever session
        self._journal.decide(
            f"agreement of {agreement.task} {agreement.number}",
            agreement.digest,
            f"{self.name} refuses: sum {agreement.number} of the task '{agreement.task}' was "
            "agreed on with different parties or terms.",
        )
        for sender, sealed in boxes.items():
            box, context = self._box(sender, to=self.name)
            try:
                text = box.decrypt(bytes(12), bytes.fromhex(sealed), context)
            except Exception:  # whatever the library raises
                text = b""
            if len(text) != 2 * SHARE_BYTES:
                raise FederationError("Shares were changed on their way, or are for others.")
            seed, key = text[:SHARE_BYTES].hex(), text[SHARE_BYTES:].hex()
            self._shares[sender] = {"seed": seed, "key": key}
        words = numbers.view(np.uint64).copy()
        own = derive(self._seed, transcript=self._transcript, use=["own mask", self.name])
        add_mask(words, own)
        for other in sorted(set(senders) & set(agreement.neighbours_of(self.name))):
            secret, transcript = self._mask_secret, self._transcript
            pair = pair_mask_key(secret, self._adverts, transcript, self.name, other)
            add_mask(words, pair, subtract=other < self.name)  # [X3] one adds, the other subtracts
        self._answers["senders"], self._answers["mask"] = senders, words
        self._asked["mask"] = digest_of(dict(boxes))
        return words.copy()

    def confirm(self, included: Sequence[str]) -> str:
        """Return a signature of the list of parties whose numbers are in the sum."""
        listed = sorted(map(str, included))
        self._require_new("confirm", listed, after="mask")
        senders, agreement = self._answers["senders"], self.agreement
        if len(set(listed)) != len(listed) or not set(listed) <= set(senders):
            raise self._refusal("the list has parties that sent nothing.")
        if self.name not in listed:
            raise self._refusal("its own numbers were left out.")
        self._require_enough(listed)
        # [X4] one list for one sum, in whatever session
        self._journal.decide(
            f"list of {agreement.task} {agreement.number}",
            digest_of([self._transcript, senders, listed]),
            f"{self.name} refuses: it has signed a list for sum {agreement.number} of the task "
            f"'{agreement.task}' before.",
        )
        self._included = listed
        self._asked["confirm"] = digest_of(listed)
        return self._identity.sign(canonical(["list", self._transcript, senders, listed]))

    def reveal(self, signatures: Mapping[str, str]) -> dict[str, dict[str, str]]:
        """Return the shares that take the masks off the total, once enough have signed its list.

        They are of the seeds of those in the list, and of the keys of those who vanished.
        """
        if "confirm" not in self._asked:
            raise self._refusal("'reveal' was asked for before 'confirm'.")
        senders, parties = self._answers["senders"], self.agreement.parties
        text = canonical(["list", self._transcript, senders, self._included])
        signed = [
            name
            for name, signature in signatures.items()
            if name in parties and is_signed(text, signature, parties[name])
        ]
        if len(signed) < self.agreement.threshold:
            raise self._refusal(
                f"{len(signed)} parties have signed this list, "
                f"{self.agreement.threshold} are needed."
            )
        gone = set(senders) - set(self._included)
        # [X5] never both kinds for one party
        return {
            "seeds": {name: self._shares[name]["seed"] for name in self._included},
            "keys": {name: self._shares[name]["key"] for name in sorted(gone)},
        }

    def _advert_text(self, name: str, keys: Advert) -> bytes:
        return canonical(["keys", self.agreement.digest, name, keys["cipher"], keys["mask"]])

    def _box(self, other: str, *, to: str) -> tuple[Any, bytes]:
        """Return the cipher of the one box that goes from one of the two to the other."""
        theirs, pair = self._adverts[other]["cipher"], sorted([self.name, other])
        use = f"share for {to}"
        key = shared_key(
            self._cipher_secret, theirs, transcript=self._transcript, use=use, pair=pair
        )
        return ChaCha20Poly1305(key), canonical([self._transcript, to])

    def _refusal(self, why: str) -> FederationError:
        return FederationError(f"{self.name} refuses: {why}")

    def _require_enough(self, names: Sequence[str]) -> None:
        if len(names) < self.agreement.threshold:
            raise self._refusal(
                f"{len(names)} parties are left, {self.agreement.threshold} are needed."
            )

    def _require_new(self, asked: str, message: Any, after: str | None = None) -> None:
        """Refuse a step out of its order, and one that was answered to another message."""
        if after is not None and after not in self._asked:
            raise self._refusal(f"'{asked}' was asked for before '{after}'.")
        if asked in self._asked and self._asked[asked] != digest_of(message):
            raise self._refusal(f"'{asked}' was answered before, differently.")


def transcript_of(agreement: Agreement, adverts: Mapping[str, Advert]) -> str:
    """Return the digest of the agreement and of everybody's keys."""
    return digest_of([agreement.digest, {name: dict(each) for name, each in adverts.items()}])


# The coordinator ---------------------------------------------------------------------------------


class SumCoordinator:
    """All that a coordinator holds in one session: it carries messages and takes masks off."""

    def __init__(self, agreement: Agreement) -> None:
        self.agreement = agreement
        self.adverts: dict[str, Advert] = {}
        self.boxes: dict[str, Mapping[str, str]] = {}  # by sender, then by recipient
        self.masked: dict[str, Words] = {}

    def boxes_for(self, name: str) -> dict[str, str | None]:
        """Return the sealed shares that were sent to a party, by sender."""
        self._require(self.boxes, "sent shares")
        return {sender: boxes.get(name) for sender, boxes in self.boxes.items() if sender != name}

    def included(self) -> list[str]:
        """Return the parties whose masked numbers have come."""
        self._require(self.masked, "sent numbers")
        for name, words in self.masked.items():
            if words.shape != (self.agreement.size,) or words.dtype != np.uint64:
                raise FederationError(f"{name} sent numbers of the wrong shape or type.")
        return sorted(self.masked)

    def total(self, shares: Mapping[str, Mapping[str, Any]]) -> NDArray[np.int64]:
        """Take the masks off by what `Member.reveal` gave; return the exact total."""
        agreement, included = self.agreement, self.included()
        self._require(shares, "gave shares")
        transcript = transcript_of(agreement, self.adverts)
        total = np.zeros(agreement.size, dtype=np.uint64)
        for name in included:
            total += self.masked[name]
        for name in included:
            seed = self._rebuild(shares, "seeds", name)
            own = derive(seed, transcript=transcript, use=["own mask", name])
            add_mask(total, own, subtract=True)
        for gone in sorted(set(self.boxes) - set(included)):
            secret = self._rebuild(shares, "keys", gone)
            if public_of(secret) != self.adverts[gone]["mask"]:
                raise FederationError(f"The shares of the key of {gone} do not rebuild it.")
            for other in set(included) & set(agreement.neighbours_of(gone)):
                key = pair_mask_key(secret, self.adverts, transcript, gone, other)
                add_mask(total, key, subtract=gone > other)  # what `other` did, undone
        return total.view(np.int64)

    def _rebuild(self, shares: Mapping[str, Mapping[str, Any]], kind: str, owner: str) -> bytes:
        places = {name: place for place, name in enumerate(self.agreement.parties, start=1)}
        given = {
            places[name]: bytes.fromhex(found[kind][owner])
            for name, found in shares.items()
            if owner in found.get(kind, {})
        }
        return rebuild(given, threshold=self.agreement.threshold)

    def _require(self, found: Mapping[str, Any], what: str) -> None:
        if len(found) < self.agreement.threshold:
            raise FederationError(
                f"{len(found)} of {len(self.agreement.parties)} parties {what}, "
                f"{self.agreement.threshold} are needed. Nothing of the sum is revealed."
            )
