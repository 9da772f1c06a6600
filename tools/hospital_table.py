"""Make the hospital table that ships: nobody in it exists, and everybody can make it again.

Run ``python tools/hospital_table.py`` in the root of the repository. The seed is fixed, so the file
is the same to the byte; a test keeps that. No real table was looked at: the figures below are
guesses at what a ward might see, chosen so that there is something to learn.
"""

from __future__ import annotations

import csv
import gzip
import io
from pathlib import Path

import numpy as np

SEED = 2026
N_PATIENTS = 5000
PLACE = Path(__file__).parents[1] / "src" / "sfumato" / "hospital.csv.gz"
WARDS = ("cardiology", "medicine", "orthopaedics", "surgery")
RISK_OF_WARD = {"cardiology": 0.7, "medicine": 0.4, "orthopaedics": -0.8, "surgery": -0.2}


def columns() -> dict[str, list[object]]:
    """Draw the columns; each depends on those above it."""
    rng = np.random.Generator(np.random.PCG64(SEED))
    age = np.clip(rng.normal(62, 18, N_PATIENTS), 18, 99).astype(int)
    sex = rng.choice(["female", "male"], N_PATIENTS, p=[0.52, 0.48])
    ward = rng.choice(WARDS, N_PATIENTS, p=[0.22, 0.38, 0.16, 0.24])
    emergency = rng.random(N_PATIENTS) < 0.35 + 0.2 * (ward == "medicine")
    smoker = rng.random(N_PATIENTS) < np.where(age < 60, 0.28, 0.15)
    diabetes = rng.random(N_PATIENTS) < 0.05 + 0.002 * age
    pressure = np.round(rng.normal(112 + 0.35 * age + 6 * smoker, 14)).astype(int)
    creatinine = np.round(np.exp(rng.normal(4.3 + 0.004 * age + 0.25 * diabetes, 0.35)))
    earlier = rng.poisson(0.3 + 0.9 * diabetes + 0.6 * (ward == "cardiology"))
    stay = np.maximum(1, np.round(np.exp(rng.normal(1.2 + 0.5 * emergency + 0.006 * age, 0.5))))
    risk = -4.3 + 0.028 * age + 1.1 * emergency + 0.8 * earlier + 0.7 * diabetes + 0.06 * stay
    risk += 1.2 * (np.log(creatinine) - 4.5) + 0.9 * (age > 80)
    risk += np.array([RISK_OF_WARD[each] for each in ward])
    again = rng.random(N_PATIENTS) < 1 / (1 + np.exp(-1.4 * risk))
    measured = rng.random(N_PATIENTS) > 0.12
    return {
        "age": age.tolist(),
        "sex": sex.tolist(),
        "ward": ward.tolist(),
        "emergency": ["true" if each else "false" for each in emergency],
        "smoker": ["true" if each else "false" for each in smoker],
        "diabetes": ["true" if each else "false" for each in diabetes],
        "pressure": pressure.tolist(),
        "creatinine": [int(c) if m else "" for c, m in zip(creatinine, measured, strict=True)],
        "earlier_stays": earlier.tolist(),
        "days": stay.astype(int).tolist(),
        "readmitted": ["yes" if each else "no" for each in again],
    }


def content() -> bytes:
    """Return the file: a packed CSV without a time stamp."""
    found, text = columns(), io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(found)
    writer.writerows(zip(*found.values(), strict=True))
    return gzip.compress(text.getvalue().encode(), mtime=0)


if __name__ == "__main__":
    PLACE.write_bytes(content())
