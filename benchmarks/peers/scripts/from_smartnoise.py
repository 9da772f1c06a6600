"""Tables by SmartNoise: `pip install smartnoise-synth`. Adding or removing a row is protected."""

from __future__ import annotations

from typing import Any

import pandas as pd
from answering import answer
from snsynth import Synthesizer


def mst(**asked: Any) -> Any:
    """MST as it comes."""
    return synthesized("mst", **asked)


def aim(**asked: Any) -> Any:
    """AIM with a quarter of its usual rounds, so that it ends within minutes."""
    return synthesized("aim", rounds=24, **asked)


def synthesized(
    method: str, *, epsilon: float, delta: float, table: Any, rounds: int = 0, **_: Any
) -> Any:
    """All columns are categories that are public, so that nothing is spent on finding them."""
    options = {"rounds": rounds} if rounds else {}
    columns = [f"c{number}" for number in range(table.shape[1])]
    rows = pd.DataFrame(table, columns=columns)

    def release() -> Any:
        synthesizer = Synthesizer.create(method, epsilon=epsilon, delta=delta, **options)
        synthesizer.fit(rows, categorical_columns=columns, preprocessor_eps=0.0)
        return synthesizer.sample(len(rows)).to_numpy().astype(int)

    return release


if __name__ == "__main__":
    answer("smartnoise-synth", {"mst": mst, "aim": aim})
