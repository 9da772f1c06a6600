"""Keys and certificates of a federation: an authority, the coordinator's certificate, node keys.

For a consortium without an authority of its own. Private keys are written for their owner only.
"""

from __future__ import annotations

import datetime
import ipaddress
import os
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


def make_server_certificate(folder: Path, hosts: list[str], days: int = 365) -> None:
    """Write ``ca.crt``, ``server.pem`` and ``server.key``; the authority's key is not kept."""
    authority, server = (ec.generate_private_key(ec.SECP384R1()) for _ in range(2))
    root = _certificate("Sfumato federation", "Sfumato federation", authority, authority, days, [])
    signed = _certificate(hosts[0], "Sfumato federation", server, authority, days, hosts)
    (folder / "ca.crt").write_bytes(root.public_bytes(serialization.Encoding.PEM))
    (folder / "server.pem").write_bytes(signed.public_bytes(serialization.Encoding.PEM))
    _write_secret(folder / "server.key", _pem(server, serialization.PrivateFormat.PKCS8))


def make_node_key(path: Path) -> Path:
    """Write a party's key pair, as ``path`` and ``path.pub``; return the public half's path."""
    key = ec.generate_private_key(ec.SECP384R1())
    public = path.with_name(path.name + ".pub")
    public.write_bytes(
        key.public_key().public_bytes(
            serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
        )
    )
    _write_secret(path, _pem(key, serialization.PrivateFormat.OpenSSH))
    return public


def _certificate(
    subject: str, issuer: str, key: Any, signer: Any, days: int, hosts: list[str]
) -> x509.Certificate:
    now = datetime.datetime.now(datetime.UTC)
    is_authority = not hosts
    builder = (
        x509.CertificateBuilder()
        .subject_name(_name(subject))
        .issuer_name(_name(issuer))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(minutes=5))
        .not_valid_after(now + datetime.timedelta(days=days))
        .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False
        )
    )
    if is_authority:
        builder = builder.add_extension(_may_sign(), critical=True)
    else:
        names = x509.SubjectAlternativeName([_host(host) for host in hosts])
        builder = builder.add_extension(names, critical=False)
    return builder.sign(signer, hashes.SHA384())


def _may_sign() -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=False,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=True,
        crl_sign=True,
        encipher_only=False,
        decipher_only=False,
    )


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _pem(key: Any, form: serialization.PrivateFormat) -> bytes:
    secret = serialization.NoEncryption()
    return bytes(key.private_bytes(serialization.Encoding.PEM, form, secret))


def _write_secret(path: Path, data: bytes) -> None:
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(data)
