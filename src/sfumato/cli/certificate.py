"""``sfumato certificate`` and ``sfumato verify``: a signed promise, and its check."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sfumato.cli import options
from sfumato.cli.console import REFUSED, leave, print_json, print_lines, ready_to_write
from sfumato.core.atomic_file import atomic_write
from sfumato.exceptions import InvalidInputError
from sfumato.report.certificate import (
    CertificateError,
    certificate_of,
    embed,
    embedded_in,
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
        Path | None, typer.Option("--output", "-o", help="The certificate to write (.json).")
    ] = None,
    make_key: Annotated[
        bool,
        typer.Option("--new-key", help="Create the key first, with its public part next to it."),
    ] = False,
    inside: Annotated[
        bool, typer.Option("--embed", help="Also put the certificate into FILE.")
    ] = False,
    ledger: options.LedgerPath = None,
    dataset: options.Dataset = None,
    purpose: options.Purpose = None,
    by: options.By = None,
    data: Annotated[
        Path | None, typer.Option(help="The records, for a fingerprint with --data-key.")
    ] = None,
    data_key: Annotated[
        Path | None, typer.Option(help="The owner's secret, 32 bytes or more.")
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Sign what a model or a fabricated table guarantees, for others to check.

    Example: sfumato certificate model.sfumato --key key.pem --new-key -o certificate.json
    """
    if output is None and not inside:
        raise InvalidInputError("Give '--output', or '--embed' to put it into the file.")
    ready_to_write(output, ".json")
    if make_key:
        new_key(key)
    budget = None if ledger is None else options.payer(ledger, dataset)
    secret = None if data_key is None else data_key.read_bytes()
    content = certificate_of(
        file, budget=budget, purpose=purpose, by=by, data=data, data_key=secret
    )
    found = signed(content, key)
    if output is not None:
        with atomic_write(output) as out:
            out.write(written(found).encode())
    if inside:
        embed(written(found), file)
    if as_json:
        print_json(found)
    else:
        print_lines(f"{output or file}: certificate of {file}", found["statement"])
        print_lines(f"Signed by {found['signature']['public_key']}.")


def verify(
    file: Annotated[
        Path,
        typer.Argument(metavar="FILE", help="A certificate (.json), or a file that contains one."),
    ],
    of: Annotated[
        Path | None, typer.Option("--of", help="The model or table that it must be about.")
    ] = None,
    key: Annotated[
        Path | None, typer.Option(help="The public key (.pub) of a signer you trust.")
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Check that a certificate is unchanged, signed and about this very file. Exit code 3 if not.

    Example: sfumato verify certificate.json --of model.sfumato --key key.pem.pub
    """
    if not file.is_file():
        raise InvalidInputError(f"There is no file '{file}'.")
    text: str | bytes | None = file.read_bytes()
    if file.suffix.lower() != ".json":
        text, of = embedded_in(file), of or file
    if text is None:
        raise InvalidInputError(f"'{file}' contains no certificate.")
    trusted = None if key is None else key.read_text().strip()
    try:
        found = verified(text, public_key=trusted, file=of)
    except CertificateError as error:
        leave(str(error), REFUSED)
    if as_json:
        print_json(found)
        return
    print_lines("The signature holds.", found["statement"])
    print_lines(f"Of: {found['subject']['file']}, issued {found['issued']}.")
    print_lines(f"Purpose: {found['purpose'] or 'not stated'}. By: {found['by'] or 'not stated'}.")
    if of is None:
        print_lines("No file was compared: give --of.")
    if key is None:
        print_lines(f"Signed by {found['signature']['public_key']}: compare it with the signer's.")
