"""Audits and attacks."""

from __future__ import annotations

from typing import Any

from benchmarks.tables.page import Sections, rows_of


def _density_distance(numbers: dict[str, Any]) -> str:
    rows = [
        [
            r["shift"],
            r["true"],
            r["mean"],
            r["largest_deviation"],
            r["largest_deviation_of_one_who_knows_the_densities"],
        ]
        for r in numbers["rows"]
    ]
    titles = ["shift", "true", "mean", "largest miss", "miss of one who knows the densities"]
    seconds = numbers["60000_against_10000"]["cpu_s"]
    return (
        f"N(0, 1) against N(shift, 1), {numbers['samples']} samples each, {numbers['seeds']} seeds."
        f"\n\n{rows_of(titles, rows)}\n\n60,000 against 10,000 samples: {seconds} CPU s."
    )


def _power(numbers: list[dict[str, Any]]) -> str:
    titles = ["mechanism", "runs a side", "promised", "refuted", "bounds"]
    return f"Confidence {numbers[0]['confidence']}.\n\n" + rows_of(
        titles,
        [
            [
                r["mechanism"],
                r["runs_a_side"],
                r["claimed"],
                r["refuted"],
                f"{r['least_bound']} to {r['largest_bound']}",
            ]
            for r in numbers
        ],
    )


def _matches(numbers: list[dict[str, Any]]) -> str:
    return rows_of(
        ["release", "epsilon", "source found", "95 % interval", "median rank of the source"],
        [
            [
                r["release"],
                r["epsilon"],
                r["rate"],
                f"{r['interval'][0]} to {r['interval'][1]}",
                r["median_rank"],
            ]
            for r in numbers
        ],
    )


def _membership(numbers: list[dict[str, Any]]) -> str:
    text = (
        "Scores in units of 1/distance, of all training and all test rows; n = 20, L = 5. Mode "
        "`paper` does not keep its promise."
    )
    titles = ["epsilon", "definition", "mode", "score", "± standard error", "printed", "AUC"]
    rows = [
        [
            r["epsilon"] or "none",
            r["definition"],
            r["mode"],
            r["score"],
            r["standard_error"],
            r["paper"] or "",
            r["auc"],
        ]
        for r in numbers
    ]
    return f"{text}\n\n{rows_of(titles, rows)}"


def _audit_peers(numbers: list[dict[str, Any]]) -> str:
    rows = []
    for r in numbers:
        rows.append([r["data"], "Sfumato", round(r["auc"], 4), "", ""])
        for name, peer in r["peers"].items():
            if "auc" in peer:
                figures = [round(peer["auc"], 4), peer["auc_difference"], peer["times_our_cpu_s"]]
                rows.append([r["data"], f"{name} {peer['version']}", *figures])
    titles = ["forest on", "attack on the loss", "AUC", "difference", "times our CPU s"]
    return rows_of(titles, rows)


SECTIONS: Sections = {
    "auditing_power": ("Auditing: broken mechanisms caught, right ones accused", _power),
    "auditing_density": ("Auditing: density difference", _density_distance),
    "auditing_scores": ("Auditing: membership scores of hulls, MNIST", _membership),
    "auditing_matches": ("Auditing: MNIST images found again in a release", _matches),
    "auditing_peers": ("Auditing: membership attacks beside others", _audit_peers),
}
