"""``sfumato certificate`` and ``sfumato verify``: a signed promise, and its check."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sfumato.cli import options
from sfumato.cli.console import (
    NOT_CHECKED,
    REFUSED,
    leave,
    print_json,
    print_lines,
    ready_to_write,
    remark,
)
from sfumato.core.atomic_file import atomic_write
from sfumato.exceptions import InvalidInputError
from sfumato.report.certificate import (
    CertificateError,
    certificate_of,
    new_key,
    signed,
    verified,
    written,
)


def certificate(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="A model (.sfumato), or a fabricated table.")
    ],
    key: Annotated[Path, typer.Option(help="Your secret key; --new-key creates it.")],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="The certificate to write (.json).")
    ],
    make_key: Annotated[
        bool,
        typer.Option("--new-key", help="Create the key first, with its public part next to it."),
    ] = False,
    ledger: options.LedgerPath = None,
    dataset: options.Dataset = None,
    purpose: options.Purpose = None,
    by: options.By = None,
) -> None:
    """Sign what a model or a fabricated table guarantees, for others to check.

    Example: sfumato certificate model.sfumato --key key.pem --new-key -o certificate.json
    """
    ready_to_write(output, ".json")
    if make_key:
        new_key(key)
    budget = None if ledger is None else options.payer(ledger, dataset)
    found = signed(certificate_of(file, budget=budget, purpose=purpose, by=by), key)
    with atomic_write(output) as out:
        out.write(written(found).encode())
    print_lines(f"{output}: certificate of {file}", found["statement"])
    print_lines(f"Signed by {found['signature']['public_key']}.")


def verify(
    file: Annotated[Path, typer.Argument(metavar="CERTIFICATE", help="A certificate (.json).")],
    of: Annotated[
        Path | None, typer.Option("--of", help="The model or table that it must be about.")
    ] = None,
    key: Annotated[
        Path | None, typer.Option(help="The public key (.pub) of a signer you trust.")
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Check that a certificate is unchanged, signed by a key you trust, and about this very file.

    Exit code 0: signed by that key. 3: changed, signed by another key, or about another file. 4:
    without --key anybody may have signed it; who did was not checked.

    Example: sfumato verify certificate.json --of model.sfumato --key key.pem.pub
    """
    if not file.is_file():
        raise InvalidInputError(f"There is no file '{file}'.")
    trusted = None if key is None else key.read_text().strip()
    try:
        found = verified(file.read_bytes(), public_key=trusted, file=of)
    except CertificateError as error:
        leave(str(error), REFUSED)
    if as_json:
        print_json(found)
    else:
        print_lines("Signed by an unverified key." if key is None else "The signature holds.")
        print_lines(found["statement"])
        print_lines(f"Of: {found['subject']['file']}, issued {found['issued']}.")
        purpose, by = (found[name] or "not stated" for name in ("purpose", "by"))
        print_lines(f"Purpose: {purpose}. By: {by}.")
    if of is None:
        remark("NOT checked: whether it is about the file that you have. Give --of.")
    if key is None:
        public = found["signature"]["public_key"]
        remark(f"NOT checked: who signed. The key was {public}; give --key.")
        raise typer.Exit(NOT_CHECKED)
