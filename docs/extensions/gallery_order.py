"""The order of the gallery: what most people need comes first."""

FIRST = ("hospital", "counts_by_group", "persons", "regression_curves", "fabricated_table")


def position(filename: str) -> tuple[int, str]:
    name = filename.removeprefix("plot_").removesuffix(".py")
    return (FIRST.index(name) if name in FIRST else len(FIRST), name)
