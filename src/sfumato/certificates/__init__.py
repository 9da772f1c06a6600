"""Certificates: what a file promises, signed, so that others can check it without Sfumato."""

from sfumato.certificates.content import certificate_of
from sfumato.certificates.registry import registry_yaml
from sfumato.certificates.signing import (
    CertificateError,
    new_key,
    read_certificate,
    signed,
    verified,
    written,
)
from sfumato.certificates.subjects import embed, embedded_in

__all__ = [
    "CertificateError",
    "certificate_of",
    "embed",
    "embedded_in",
    "new_key",
    "read_certificate",
    "registry_yaml",
    "signed",
    "verified",
    "written",
]
