"""Table 3 of the paper on federated machines, as far as a benchmark has measured it."""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.reproductions.recorded import Recorded, machine_of, read
from sfumato.papers import Comparison
from sfumato.papers.feddpdr.methods import METHODS
from sfumato.papers.feddpdr.times import PRINTED_SECONDS

SPEED = "margins_speed"


def table_3() -> Recorded:
    """MNIST, without the federation."""
    kept = read(SPEED)
    ours = {n["what"]: n["cpu_s"] for n in kept["numbers"]}
    rows = [
        Comparison(f"MNIST, {method}", printed, ours[method], None, 0.0, "lower", "s")
        for method, printed in zip(METHODS, PRINTED_SECONDS["MNIST"], strict=True)
        if method in ours
    ]
    saves = ours["DPDR-DPML"] < ours["DPML"]
    return Recorded(
        tuple(rows),
        (SPEED,),
        "seconds",
        machine_of(kept),
        {"reducing the dimension saves time": saves},
        ("CPU seconds, the least of three runs.",),
        "2 of 12 figures",
    )


RECORDED: dict[str, Callable[[], Recorded]] = {"table-3": table_3}
