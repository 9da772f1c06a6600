"""A party's side of a secure sum: five answers, each given once."""

from __future__ import annotations

import copy
import hashlib
import os
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.core.atomic_file import sync_folder
from sfumato.exceptions import FederationError
from sfumato.federated.secure.agreement import Agreement, canonical, digest, step
from sfumato.federated.secure.identity import (
    Identity,
    add_mask,
    derived,
    is_signed,
    new_secret,
    opened,
    public_of,
    sealed,
    shared_key,
)
from sfumato.federated.secure.shamir import SECRET_BYTES, SHARE_BYTES, shares_of

Advert = Mapping[str, str]
Words = NDArray[np.uint64]


class Member:
    """One party in one session of a secure sum.

    Parameters
    ----------
    name : str
        The party.
    identity : Identity
        Its key for signatures.
    agreement : Agreement
        What is summed, and with whom.
    registered : mapping of str to str
        The public keys that the party has of the others.
    journal : Journal
        What it has agreed to and signed before.

    Notes
    -----
    The steps are `advertise`, `share`, `mask`, `confirm`, `reveal`. A step that is asked for again
    with the same message gives the same answer; with another message it is refused. Secrets are
    drawn for this session alone, so no mask is ever used twice.
    """

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
                raise FederationError(f"{name} refuses: it has not registered this key of {party}.")
        if agreement.parties.get(name) != identity.public:
            raise FederationError(f"{name} refuses: the agreement has another key for it.")
        self._cipher_secret, self._mask_secret = new_secret(), new_secret()
        self._seed = secrets.token_bytes(SECRET_BYTES)
        self._transcript = ""
        self._adverts: dict[str, dict[str, str]] = {}
        self._shares: dict[str, dict[str, str]] = {}  # of the others' secrets, by their owner
        self._asked: dict[str, str] = {}  # digest of the message that each step has answered
        self._answers: dict[str, Any] = {}
        self._included: list[str] = []

    def state(self) -> dict[str, Any]:
        """Return what the session needs to go on in another process; it holds secrets.

        Returns
        -------
        dict
            Plain JSON.
        """
        kept = {key: value for key, value in vars(self).items() if key not in _NOT_KEPT}
        for key in _SECRETS:
            kept[key] = kept[key].hex()
        # Masked numbers are made again from the same keys and the same numbers, to the bit.
        kept["_answers"] = {key: each for key, each in self._answers.items() if key != "mask"}
        return copy.deepcopy(kept)

    def resume(self, state: Mapping[str, Any]) -> Member:
        """Go on with a session that was begun in another process.

        Parameters
        ----------
        state : mapping
            What `state` gave.

        Returns
        -------
        Member
            Itself.
        """
        for key, value in copy.deepcopy(dict(state)).items():
            setattr(self, key, bytes.fromhex(value) if key in _SECRETS else value)
        return self

    def advertise(self) -> dict[str, str]:
        """Return the public keys of this session, signed.

        Returns
        -------
        dict
            Keys and signature.
        """
        keys = {"cipher": public_of(self._cipher_secret), "mask": public_of(self._mask_secret)}
        text = advert_text(self.agreement, self.name, keys)
        return {**keys, "signature": self._identity.sign(text)}

    @step
    def share(self, adverts: Mapping[str, Advert]) -> dict[str, str]:
        """Check everybody's keys and return a sealed share of the own secrets to each.

        Parameters
        ----------
        adverts : mapping of str to mapping
            What each party's `advertise` gave.

        Returns
        -------
        dict of str to str
            Sealed shares, by recipient.
        """
        self._require_new("share", dict(adverts))
        if "share" in self._answers:
            return dict(self._answers["share"])
        self._check_adverts(adverts)
        # [X1] all keys of the session depend on everybody's view of agreement and keys
        self._transcript = transcript_of(self.agreement, adverts)
        self._adverts = {name: dict(advert) for name, advert in adverts.items()}
        agreement, places = self.agreement, len(self.agreement.parties)
        parts = [
            shares_of(secret, threshold=agreement.threshold, places=places)
            for secret in (self._seed, self._mask_secret)
        ]
        boxes = {}
        for name, seed, key in zip(agreement.names, *parts, strict=True):
            if name == self.name:
                self._shares[name] = {"seed": seed.hex(), "key": key.hex()}
            else:
                boxes[name] = sealed(
                    seed + key, self._cipher_key(name, to=name), context=self._context(name)
                )
        self._answers["share"] = boxes
        self._asked["share"] = digest(dict(adverts))
        return dict(boxes)

    @step
    def mask(self, boxes: Mapping[str, str], cells: NDArray[np.int64]) -> Words:
        """Take the others' shares and return the own numbers under masks.

        Parameters
        ----------
        boxes : mapping of str to str
            Sealed shares for this party, by sender: who still takes part.
        cells : ndarray of int64
            The party's numbers with its share of the noise.

        Returns
        -------
        ndarray of uint64
            Uniform to everybody who does not know the masks.
        """
        self._require_step("mask", after="share")
        self._require_new("mask", dict(boxes))
        if "mask" in self._answers:
            return np.array(self._answers["mask"])
        senders = self._check_senders(boxes)
        numbers = np.ascontiguousarray(cells, dtype=np.int64).ravel()
        if len(numbers) != self.agreement.size:
            raise FederationError(f"{self.name}: the sum has another size than was agreed on.")
        if max(int(numbers.max()), -int(numbers.min())) > self.agreement.largest:
            raise FederationError(f"{self.name}: a number is larger than was agreed on.")
        # [X2] one agreement for one sum, in whatever session
        self._journal.decide(
            f"agreement of {self.agreement.task} {self.agreement.number}",
            self.agreement.digest(),
            f"{self.name} refuses: sum {self.agreement.number} of the task "
            f"'{self.agreement.task}' was agreed on with other parties or on other terms.",
        )
        for sender, box in boxes.items():
            self._shares[sender] = self._opened_shares(sender, box)
        words = numbers.view(np.uint64).copy()
        add_mask(words, seed_mask_key(self._seed, self._transcript, self.name))
        near = self.agreement.neighbours_of(self.name)
        for other in sorted(set(senders) & set(near)):
            add_mask(
                words,
                pair_mask_key(self._mask_secret, self._adverts, self._transcript, self.name, other),
                subtract=other < self.name,  # [X3] what one adds, the other subtracts
            )
        self._answers["senders"], self._answers["mask"] = senders, words
        self._asked["mask"] = digest(dict(boxes))
        return words.copy()

    @step
    def confirm(self, included: Sequence[str]) -> str:
        """Sign the list of parties whose numbers are in the sum.

        Parameters
        ----------
        included : sequence of str
            Whose masked numbers the coordinator has.

        Returns
        -------
        str
            The signature.
        """
        self._require_step("confirm", after="mask")
        listed = sorted(map(str, included))
        self._require_new("confirm", listed)
        senders = self._answers["senders"]
        if len(set(listed)) != len(listed) or not set(listed) <= set(senders):
            raise FederationError(f"{self.name} refuses: the list has parties that sent nothing.")
        if self.name not in listed:
            raise FederationError(f"{self.name} refuses: its own numbers were left out.")
        if len(listed) < self.agreement.threshold:
            raise FederationError(
                f"{self.name} refuses: {len(listed)} parties are left, "
                f"{self.agreement.threshold} are needed."
            )
        text = list_text(self._transcript, senders, listed)
        # [X4] one list for one sum, in whatever session
        self._journal.decide(
            f"list of {self.agreement.task} {self.agreement.number}",
            digest([self._transcript, senders, listed]),
            f"{self.name} refuses: it has signed a list for sum {self.agreement.number} of the "
            f"task '{self.agreement.task}' before.",
        )
        self._included = listed
        self._asked["confirm"] = digest(listed)
        return self._identity.sign(text)

    @step
    def reveal(self, signatures: Mapping[str, str]) -> dict[str, dict[str, str]]:
        """Return the shares that take the masks off the total, once enough have signed its list.

        Parameters
        ----------
        signatures : mapping of str to str
            What `confirm` gave, by party.

        Returns
        -------
        dict
            Shares of the seeds of those in the list, and of the keys of those who vanished.
        """
        self._require_step("reveal", after="confirm")
        senders = self._answers["senders"]
        text = list_text(self._transcript, senders, self._included)
        parties = self.agreement.parties
        signed = [
            name
            for name, signature in signatures.items()
            if name in parties and is_signed(text, signature, parties[name])
        ]
        if len(signed) < self.agreement.threshold:
            raise FederationError(
                f"{self.name} refuses: {len(signed)} parties have signed this list, "
                f"{self.agreement.threshold} are needed."
            )
        gone = set(senders) - set(self._included)
        # [X5] never both kinds for one party
        return {
            "seeds": {name: self._shares[name]["seed"] for name in self._included},
            "keys": {name: self._shares[name]["key"] for name in sorted(gone)},
        }

    def _check_adverts(self, adverts: Mapping[str, Advert]) -> None:
        if set(adverts) != set(self.agreement.parties):
            raise FederationError(f"{self.name} refuses: keys of other parties were sent.")
        for name, advert in adverts.items():
            keys = {use: str(advert.get(use)) for use in ("cipher", "mask")}
            text = advert_text(self.agreement, name, keys)
            if not is_signed(text, advert.get("signature"), self.agreement.parties[name]):
                raise FederationError(f"{self.name} refuses: {name} did not sign its keys.")
        if dict(adverts[self.name]) != self.advertise():
            raise FederationError(f"{self.name} refuses: its own keys were changed.")
        used = [advert[use] for advert in adverts.values() for use in ("cipher", "mask")]
        if len(set(used)) != len(used):
            raise FederationError(f"{self.name} refuses: a key is used twice.")

    def _check_senders(self, boxes: Mapping[str, str]) -> list[str]:
        senders = sorted({*boxes, self.name})
        if self.name in boxes or not set(senders) <= set(self.agreement.parties):
            raise FederationError(f"{self.name} refuses: shares of strangers were sent.")
        if len(senders) < self.agreement.threshold:
            raise FederationError(
                f"{self.name} refuses: {len(senders)} parties are left, "
                f"{self.agreement.threshold} are needed."
            )
        return senders

    def _cipher_key(self, other: str, *, to: str) -> bytes:
        """Return the key of the one box that goes from one of the two to the other."""
        return shared_key(
            self._cipher_secret,
            self._adverts[other]["cipher"],
            transcript=self._transcript,
            use=f"share for {to}",
            pair=sorted([self.name, other]),
        )

    def _context(self, to: str) -> bytes:
        return canonical([self._transcript, to])

    def _opened_shares(self, sender: str, box: str) -> dict[str, str]:
        key = self._cipher_key(sender, to=self.name)
        text = opened(box, key, context=self._context(self.name))
        if len(text) != 2 * SHARE_BYTES:
            raise FederationError("Shares were changed on their way, or are for others.")
        return {"seed": text[:SHARE_BYTES].hex(), "key": text[SHARE_BYTES:].hex()}

    def _require_step(self, asked: str, *, after: str) -> None:
        if after not in self._asked:
            raise FederationError(f"{self.name} refuses: '{asked}' was asked for before '{after}'.")

    def _require_new(self, asked: str, message: Any) -> None:
        """Refuse a step that was answered to another message."""
        if asked in self._asked and self._asked[asked] != digest(message):
            raise FederationError(
                f"{self.name} refuses: '{asked}' was answered before, differently."
            )


_SECRETS = ("_cipher_secret", "_mask_secret", "_seed")
_NOT_KEPT = ("name", "agreement", "_identity", "_journal")


def advert_text(agreement: Agreement, name: str, keys: Advert) -> bytes:
    """Return what a party signs of its keys."""
    return canonical(["keys", agreement.digest(), name, keys["cipher"], keys["mask"]])


def transcript_of(agreement: Agreement, adverts: Mapping[str, Advert]) -> str:
    """Digest of the agreement and of everybody's keys."""
    return digest([agreement.digest(), {name: dict(each) for name, each in adverts.items()}])


def list_text(transcript: str, senders: Sequence[str], included: Sequence[str]) -> bytes:
    """Return what a party signs of the lists of parties."""
    return canonical(["list", transcript, list(senders), list(included)])


def seed_mask_key(seed: bytes, transcript: str, name: str) -> bytes:
    """Return the key of a party's own mask."""
    if len(seed) != SECRET_BYTES:
        raise FederationError("A seed has 32 bytes.")
    return derived(seed, transcript=transcript, use=["own mask", name])


def pair_mask_key(
    secret: bytes, adverts: Mapping[str, Advert], transcript: str, name: str, other: str
) -> bytes:
    """Return the key of the mask of two parties, from the secret of one of them."""
    return shared_key(
        secret,
        adverts[other]["mask"],
        transcript=transcript,
        use="pair mask",
        pair=sorted([name, other]),
    )


class Journal:
    """Decisions that a party makes once, whatever session or process asks.

    Parameters
    ----------
    folder : path-like, optional
        Where decisions are kept; by default in this process only, for simulations.
    """

    def __init__(self, folder: str | os.PathLike[str] | None = None) -> None:
        self._folder = None if folder is None else Path(folder)
        self._decided: dict[str, str] = {}
        if self._folder is not None:
            self._folder.mkdir(parents=True, exist_ok=True)

    def decide(self, question: str, answer: str, refusal: str) -> None:
        """Write down the answer to a question, or refuse one that differs from the first.

        Parameters
        ----------
        question : str
            What is decided.
        answer : str
            How.
        refusal : str
            What is said where it was decided otherwise before.
        """
        if self._first(question, answer) != answer:
            raise FederationError(refusal)

    def _first(self, question: str, answer: str) -> str:
        if self._folder is None:
            return self._decided.setdefault(question, answer)
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
            return path.read_text(encoding="utf-8")
        finally:
            aside.unlink()
        return answer
