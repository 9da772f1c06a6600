"""Linear and large-margin classifiers."""

from __future__ import annotations

from typing import Any

from benchmarks.tables.page import Sections, rows_of


def _large_margin_plain(numbers: list[dict[str, Any]]) -> str:
    titles = ["rows", "regulariser", "weight", "accuracy", "fit CPU s"]
    return "40 principal components; regulariser chosen on held-out training rows.\n\n" + rows_of(
        titles,
        [
            [r["rows"], r["regularizer"], r["regularization"], r["accuracy"], r["fit"]["cpu_s"]]
            for r in numbers
        ],
    )


def _large_margin_private(numbers: list[dict[str, Any]]) -> str:
    head = "Record level, delta 1e-5, 60,000 rows; 10 private components, charged too.\n\n"
    return head + rows_of(
        ["relation", "epsilon", "accuracy", "standard deviation", "runs", "fit CPU s"],
        [
            [
                r["relation"],
                r["epsilon"],
                r["accuracy"],
                r["accuracy_std"],
                r["runs"],
                r["fit_cpu_s"],
            ]
            for r in numbers
        ],
    )


def _frontier(numbers: list[dict[str, Any]]) -> str:
    epsilons = sorted({r["epsilon"] for r in numbers})
    rows: dict[tuple[str, str, str], dict[float, Any]] = {}
    for r in numbers:
        rows.setdefault((r["data"], r["features"], r["relation"]), {})[r["epsilon"]] = r
    table = rows_of(
        ["data", "features", "relation", *(f"epsilon {e:g}" for e in epsilons), "runs", "fit s"],
        [
            [
                *key,
                *(found[e]["accuracy"] if e in found else "" for e in epsilons),
                " and ".join(map(str, sorted({each["runs"] for each in found.values()}))),
                found[min(found)]["fit_wall_s"],
            ]
            for key, found in rows.items()
        ],
    )
    return (
        "Record level, delta 1e-5, everything charged, the public rule of PrivateLinearClassifier "
        f"(noisy gradient descent, whitened).\n\n{table}"
    )


def _margins_speed(numbers: list[dict[str, Any]]) -> str:
    return (
        "10,000 rows of MNIST of length 1; minimisers to 1e-9 of the mean gradient.\n\n"
        + rows_of(
            ["what", "CPU s", "wall s", "paper s", "gradient norm"],
            [
                [r["what"], r["cpu_s"], r["wall_s"], r.get("paper_s") or "", _small(r)]
                for r in numbers
            ],
        )
    )


FIT_COLUMNS = ["what", "n_rows", "n_features", "cpu_s", "cpu_s_plain", "ratio", "accuracy"]
FIT_COLUMNS += ["accuracy_plain"]


def _fits(numbers: list[dict[str, Any]]) -> str:
    fits = [r for r in numbers if r["part"] == "fits"]
    return (
        "PrivateLinearClassifier (epsilon 1) and scikit-learn's LogisticRegression, both with "
        "their defaults, in turn on the same rows.\n\n"
        + rows_of(
            ["rows of", "rows", "features", "CPU s", "plain CPU s", "ratio", "accuracy", "plain"],
            [[r[name] for name in FIT_COLUMNS] for r in fits],
        )
    )


def _scattering(numbers: list[dict[str, Any]]) -> str:
    columns = ["what", "n_rows", "n_features", "cpu_s", "wall_s"]
    return rows_of(
        ["features", "images", "numbers", "CPU s", "wall s"],
        [[each[name] for name in columns] for each in numbers],
    )


def _changes(numbers: list[dict[str, Any]]) -> str:
    columns = ["what", "version", "n_rows", "cpu_s", "cpu_s_plain", "ratio", "accuracy"]
    return (
        "The same fit by the version before all of the speed-ups and by the present one, in "
        "turn, each in its own process, compared with scikit-learn's; and where most of "
        "the time went.\n\n"
        + rows_of(
            ["rows of", "version", "rows", "CPU s", "plain CPU s", "ratio", "accuracy", "most in"],
            [[*(each[name] for name in columns), _most(each["profile"])] for each in numbers],
        )
    )


def _most(profile: list[dict[str, Any]]) -> str:
    return ", ".join(f"{each['where']} {each['share']:.0%}" for each in profile[:2])


def _accelerator(numbers: list[dict[str, Any]]) -> str:
    def times(row: dict[str, Any]) -> str:
        named = (f"{n} {v}" for n, v in row.items() if n not in ("part", "what", "each"))
        return ", ".join(named)

    return (
        "PrivateLinearClassifier on scattering features of MNIST on one GPU, and what else was "
        "tried there for its parts and for those of hulls; seconds.\n\n"
        + rows_of(["part", "what", "found"], [[r["part"], r["what"], times(r)] for r in numbers])
    )


def _steps(numbers: list[dict[str, Any]]) -> str:
    columns = ["features", "epsilon", "n_steps", "accuracy", "accuracy_std", "fit_wall_s", "runs"]
    return "MNIST, add or remove one, scored on a fifth of the training rows.\n\n" + rows_of(
        ["features", "epsilon", "steps", "accuracy", "deviation", "fit s", "runs"],
        [[each[name] for name in columns] for each in numbers],
    )


def _tries(numbers: list[dict[str, Any]]) -> str:
    epsilons = ["accuracy at 1", "accuracy at 3", "accuracy at 8"]
    return (
        "CIFAR-10, add or remove one, 40,000 training rows, accuracy on 10,000 others of the "
        "training rows.\n\n"
        + rows_of(
            ["features", "numbers", "epsilon 1", "3", "8", "runs"],
            [[r["what"], r["n_features"], *(r[e] for e in epsilons), r["runs"]] for r in numbers],
        )
    )


def _growth(numbers: list[dict[str, Any]]) -> str:
    columns = ["part", "what", "n_rows", "n_features", "accuracy", "cpu_s", "runs"]
    return (
        "PrivateLinearClassifier on MNIST, epsilon 1, delta 1e-5, add or remove one: its rule with "
        "one part changed at a time (HOG features, 240 steps), and growth in rows and in features "
        "(pixels, 60 steps).\n\n"
        + rows_of(
            ["part", "what", "rows", "features", "accuracy", "CPU s", "runs"],
            [[each[name] for name in columns] for each in numbers],
        )
    )


def _small(row: dict[str, Any]) -> str:
    return f"{row['gradient_norm']:.0e}" if "gradient_norm" in row else ""


def _margins_printed(numbers: list[dict[str, Any]]) -> str:
    return (
        "Even against odd digits, 10,000 rows, delta 1e-4, as printed; epsilon is the proved "
        "one.\n\n"
        + rows_of(
            ["mechanism", "rows", "printed epsilon", "status", "epsilon", "accuracy", "fit s"],
            [
                [
                    r["what"],
                    r["rows"],
                    r.get("claimed_epsilon", ""),
                    r.get("status", ""),
                    r.get("epsilon") or "",
                    r["accuracy"],
                    r.get("fit_wall_s", ""),
                ]
                for r in numbers
            ],
        )
    )


def _margins_peers(numbers: list[dict[str, Any]]) -> str:
    epsilons = sorted({r["epsilon"] for r in numbers})
    rows: dict[str, dict[float, Any]] = {}
    for r in numbers:
        rows.setdefault(r["classifier"], {})[r["epsilon"]] = r
    return (
        "Ours and the plain descent at delta 1e-5, replace one; diffprivlib at pure epsilon with "
        "its defaults. Accuracy, and seconds of a fit.\n\n"
        + rows_of(
            ["classifier", *(f"epsilon {e:g}" for e in epsilons), "fit s"],
            [
                [
                    name,
                    *(found[e]["accuracy"] if e in found else "" for e in epsilons),
                    found[max(found)]["fit_wall_s"],
                ]
                for name, found in rows.items()
            ],
        )
    )


SECTIONS: Sections = {
    "margins_frontier": ("Private linear classifiers on image features", _frontier),
    "margins_frontier_cifar": ("Private linear classifiers, CIFAR-10", _frontier),
    "margins_frontier_cifar_parts": (
        "Private linear classifiers, CIFAR-10: which features earned what",
        _frontier,
    ),
    "margins_speed": ("Linear classifiers: speed", _margins_speed),
    "linear_growth": ("Linear classifiers: which part earned what, and growth", _growth),
    "speed": ("Private linear classifiers beside scikit-learn's: speed", _fits),
    "speed_scattering": ("Scattering features: speed", _scattering),
    "speed_changes": ("Private linear classifiers: before and after", _changes),
    "accelerator": ("Private linear classifiers on a GPU", _accelerator),
    "margins_frontier_steps": ("Private linear classifiers: fewer steps", _steps),
    "margins_frontier_cifar_tries": ("CIFAR-10: what was tried on held-out rows", _tries),
    "margins_printed": ("Linear classifiers: DPML and DPDR-DPML as printed", _margins_printed),
    "margins_peers_adult": ("Private classifiers beside others, Adult", _margins_peers),
    "margins_peers_mnist": (
        "Private classifiers beside others, MNIST (10,000 rows)",
        _margins_peers,
    ),
    "large_margin_plain": ("Large-margin ellipsoids, MNIST", _large_margin_plain),
    "large_margin_private": ("Private large-margin ellipsoids, MNIST", _large_margin_private),
}
