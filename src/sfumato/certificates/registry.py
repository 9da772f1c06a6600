"""A certificate in the words of OpenDP's registry of deployments, as YAML.

The registry's schema (deployments-schema.yaml of opendp/deployments-registry-data, 2026) has the
sections basic, dp_variant, privacy_loss, deployment_model, accounting, implementation and
administrative. What a certificate cannot know (curator, region, sector, who registers) is given.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from sfumato.exceptions import InvalidInputError

__all__ = ["registry_yaml"]

SECTORS = ("Technology", "Healthcare", "Education", "Government", "Energy", "Finance")
UNITS = {"record": "One record", "entry": "One number of one record"}
NEIGHBOURS = {
    "replace_one": "Data sets of the same, public number of records that differ in one record.",
    "add_or_remove_one": "Data sets of which one has one record more than the other.",
}


def registry_yaml(
    certificate: Mapping[str, Any],
    *,
    name: str,
    curator: str,
    region: str,
    author: str,
    sector: str | None = None,
    description: str | None = None,
) -> str:
    """Give the registry's record of a certified release.

    Parameters
    ----------
    certificate : mapping
        A certificate.
    name : str
        Of the data product.
    curator : str
        Who publishes it.
    region : str
        Where the data are from.
    author : str
        Who registers it.
    sector : {"Technology", "Healthcare", "Education", "Government", "Energy", "Finance"}, optional
        What it is about.
    description : str, optional
        A sentence; by default the promise.

    Returns
    -------
    str
        YAML, status Draft, tier 3.
    """
    if sector is not None and sector not in SECTORS:
        raise InvalidInputError(f"'sector' must be one of {', '.join(SECTORS)}.")
    slug = re.sub(r"[^a-z0-9]+", "-", f"{name} {curator} {certificate['issued'][:4]}".lower())
    record = {
        "url_slug": slug.strip("-"),
        "status": "Draft",
        "tier": 3,
        "deployment": {
            "basic": _basic(certificate, name, curator, region, sector, description),
            "dp_variant": {
                "variant_name": "Approximate DP" if certificate["delta"] else "Pure DP",
                "data_domain": "Records within the public bounds of the release.",
                "unprotected_quantities": _listed(certificate["public"]),
            },
            "privacy_loss": _loss(certificate),
            "deployment_model": {
                "model_name": "Central",
                "release_type": "One release" if certificate["ledger"] is None else "Many releases",
                "release_type_details": _budget(certificate),
                "data_source_type": "Static",
                "access_type": "Non-interactive",
            },
            "accounting": {
                "post_processing": "Nothing after the noisy releases reads a record.",
                "composition": "All releases of a fit are charged together and composed by privacy "
                "loss distributions, closed Gaussian forms or Rényi divergences.",
            },
            "implementation": {
                "preprocessing_and_hyperparameter_tuning": "Records are clipped to public bounds, "
                "each by itself. " + _search(certificate),
                "mechanisms": _mechanisms(certificate),
                "justification": certificate["statement"],
            },
            "administrative": {
                "notes": f"Sfumato {certificate['software']['version']}, code SHA-256 "
                f"{certificate['software']['code_sha256']}. " + _signer(certificate),
                "registry_authors": [author],
            },
        },
    }
    return _yaml(record)


def _basic(
    certificate: Mapping[str, Any],
    name: str,
    curator: str,
    region: str,
    sector: str | None,
    description: str | None,
) -> dict[str, Any]:
    kinds = {"table": "Synthetic data", "model": "Machine learning model"}
    kinds["file"] = kinds["model"]  # of another program; a draft, to be corrected
    found = {
        "name": name,
        "data_curators": [curator],
        "intended_use": certificate["purpose"] or "Not stated.",
        "data_product_type": kinds[certificate["subject"]["kind"]],
        "data_product_region": region,
        "description": description or certificate["statement"],
        "publication_date": certificate["issued"][:10],
    }
    return found if sector is None else {**found, "data_product_sector": sector}


def _loss(certificate: Mapping[str, Any]) -> dict[str, Any]:
    parameters = {"epsilon": certificate["epsilon"]}
    if certificate["delta"]:
        parameters["delta"] = certificate["delta"]
    return {
        "privacy_unit": UNITS.get(certificate["unit"], certificate["unit"]),
        "privacy_unit_details": NEIGHBOURS[certificate["relation"]],
        "privacy_parameters": parameters,
        "privacy_parameters_details": f"Status: {certificate['status']}. "
        + (f"Only if: {_listed(certificate['conditions'])}" if certificate["conditions"] else ""),
    }


def _budget(certificate: Mapping[str, Any]) -> str:
    ledger = certificate["ledger"]
    if ledger is None:
        return "No ledger was given."
    return (
        f"All releases of the data set together may cost epsilon {ledger['budget_epsilon']:g} at "
        f"delta {ledger['budget_delta']:g}; {ledger['spent']:.4g} was spent when this was issued."
    )


def _mechanisms(certificate: Mapping[str, Any]) -> str:
    return json.dumps(certificate["events"], sort_keys=True)


def _search(certificate: Mapping[str, Any]) -> str:
    if any(event["kind"] == "selection" for event in certificate["events"]):
        return "Settings were chosen by a private search, whose whole cost is stated."
    return "Settings were not chosen on these records within this release."


def _signer(certificate: Mapping[str, Any]) -> str:
    signature = certificate.get("signature")
    return "" if signature is None else f"Signed with Ed25519 key {signature['public_key']}."


def _listed(texts: list[str]) -> str:
    return "; ".join(texts) or "None is recorded."


def _scalar(value: Any) -> str:
    """Write a value; YAML reads 1e-05 as a text, and 1.0e-05 as a number."""
    text = json.dumps(value)
    if isinstance(value, float) and "e" in text and "." not in text:
        return text.replace("e", ".0e")
    return text


def _yaml(value: Any, depth: int = 0) -> str:
    """Write plain values as YAML: texts in the double quotes that JSON and YAML share."""
    lines = []
    for name, each in value.items():
        start = f"{'  ' * depth}{name}:"
        if isinstance(each, dict):
            lines.append(f"{start}\n{_yaml(each, depth + 1)}".rstrip("\n"))
        elif isinstance(each, list):
            lines.append(start)
            lines += [f"{'  ' * depth}  - {json.dumps(item)}" for item in each]
        else:
            lines.append(f"{start} {_scalar(each)}")
    return "\n".join(lines) + "\n"
