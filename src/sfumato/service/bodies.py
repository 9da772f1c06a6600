"""What requests may say: every field, its kind and its limits."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

Epsilon = Annotated[float, Field(gt=0, le=100, allow_inf_nan=False)]
Delta = Annotated[float, Field(ge=0, lt=0.1, allow_inf_nan=False)]
Name = Annotated[
    str, Field(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9_@-][A-Za-z0-9_.@-]*$")
]
Line = Annotated[str, Field(max_length=400, pattern=r"^[^\x00-\x1f\x7f-\x9f\u2028\u2029]*$")]
Kind = Literal["fit", "explanation", "search", "fabricate", "density", "curve", "moments"]
Value = str | int | float | bool | None


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid", str_strip_whitespace=True)


class Problem(BaseModel):
    """What is wrong; it never depends on rows."""

    error: str = Field(description="A word for programs.")
    message: str = Field(description="A sentence for people: what is wrong, and what to do.")


class NewPerson(_Body):
    """A person and her role."""

    name: Name = Field(description="How she is called here; cannot be changed.")
    role: Literal["officer", "analyst", "auditor"] = Field(
        description="Officers answer for data, analysts ask, auditors read and change nothing."
    )


class NewToken(_Body):
    """How long a token is good, and for what."""

    days: float = Field(
        default=30, gt=0, le=366, allow_inf_nan=False, description="How long it is good."
    )
    scope: Literal["all", "read"] = Field(
        default="all", description="A reading token asks nothing."
    )
    label: Line = Field(default="", description="What it is for.")


class NewDataset(_Body):
    """A data set: where its rows are, who is protected, and what may be spent."""

    name: Name = Field(description="How analysts call it; cannot be changed.")
    path: str = Field(
        min_length=1,
        max_length=400,
        description="A file or folder inside the data folder, FILE.db:TABLE, or "
        "database:NAME/TABLE.",
    )
    target: Line | None = Field(default=None, description="The column to predict.")
    person: Line | None = Field(default=None, description="The column of IDs, for unit person.")
    unit: Literal["record", "person"] = Field(
        default="record", description="What one change touches: one row, or all rows of a person."
    )
    relation: Literal["replace_one", "add_or_remove_one"] = Field(
        default="replace_one",
        description="Whether one is replaced (their number is public), or added or removed.",
    )
    protected: Line = Field(description="Who is protected, in plain words.")
    why: Line = Field(description="Why this budget, and not more.")
    epsilon: Epsilon | None = Field(
        default=None, description="The total of all releases; needed unless 'budget' is given."
    )
    delta: Delta = Field(default=1e-6, description="Well below 1 / number of rows.")
    kind: Literal["pure", "gaussian", "renyi"] | None = Field(
        default=None,
        description="What is added up; by default gaussian, or pure without a delta. Renyi also "
        "takes searches and noisy objectives.",
    )
    budget: Name | None = Field(default=None, description="Share the budget of another data set.")
    auto_approve: float = Field(
        default=0.0,
        ge=0,
        le=100,
        allow_inf_nan=False,
        description="Requests up to this epsilon need no officer.",
    )


Values = Annotated[list[Value], Field(max_length=10_000)]


class ColumnFacts(_Body):
    """All that is public about a column, as in a file of bounds; empty: as it was proposed."""

    type: Line | None = Field(
        default=None, description='Arrow\'s name of the type, such as "double" or "date32[day]".'
    )
    lower: Value = Field(default=None, description="The least value.")
    upper: Value = Field(default=None, description="The largest value.")
    categories: Values | None = Field(default=None, description="All possible values.")
    labels: Values | None = Field(default=None, description="All possible labels of the target.")
    left_out: bool | None = Field(default=None, description="Whether the column is not used.")
    ordered: bool | None = Field(default=None, description="Whether the categories have an order.")
    log: bool | None = Field(default=None, description="Whether it is used on a log scale.")
    missing: bool | None = Field(default=None, description="Whether cells may be missing.")
    fill: Value = Field(default=None, description="The value that stands for a missing cell.")
    decimals: int | None = Field(default=None, description="Decimals of fabricated values.")
    parts: Values | None = Field(default=None, description="Parts of a date that are used.")
    format: Line | None = Field(default=None, description="How a date is written.")
    weights: Values | None = Field(default=None, description="Public shares of the categories.")
    person_rows: int | None = Field(
        default=None, ge=1, le=10**6, description="Of the column of IDs: most rows of a person."
    )
    per_person: Literal["average", "sum"] | None = Field(
        default=None, description="Of the column of IDs: how a person's rows are added up."
    )


class FileFormat(_Body):
    """How the file is written as text, all of it; empty: as it was proposed."""

    delimiter: str | None = Field(default=None, max_length=4, description="Between fields.")
    decimal: str | None = Field(default=None, max_length=4, description="Before decimals.")
    thousands: str | None = Field(
        default=None, max_length=4, description="Between groups of digits."
    )
    encoding: str | None = Field(default=None, max_length=40, description="Such as utf-8.")
    missing: list[str] | None = Field(
        default=None, max_length=100, description="Words for a missing cell, in common usage."
    )


class OpenDataset(_Body):
    """The last declaration before a data set is opened."""

    one_row_per_person: bool = Field(
        default=False, description="Nobody has more than one row in this table."
    )


class Quota(_Body):
    """What an analyst may spend, and until when."""

    epsilon: Epsilon = Field(description="The most that her releases may cost together.")
    until: str | None = Field(
        default=None, max_length=40, description="Last day or time (ISO 8601, UTC)."
    )


class AutoApproval(_Body):
    """Up to which epsilon a request needs no officer."""

    epsilon: float = Field(
        ge=0, le=100, allow_inf_nan=False, description="0: every request is read."
    )


class NewJob(_Body):
    """A request for a release."""

    kind: Kind = Field(default="fit", description="What is made.")
    estimator: str | None = Field(
        default=None, max_length=64, description="Class of the model; by default that of the kind."
    )
    parameters: dict[str, Any] = Field(
        default_factory=dict, max_length=40, description="Settings of the model, by name."
    )
    grid: dict[str, list[Any]] = Field(
        default_factory=dict, max_length=10, description="Of a search: values per setting."
    )
    columns: list[Line] = Field(
        default_factory=list, max_length=100, description="Of a density, curve or function."
    )
    rows: int | None = Field(
        default=None, ge=1, le=10**6, description="Rows to fabricate; by default as many."
    )
    epsilon: Epsilon = Field(description="The most that this release may cost.")
    delta: Delta | None = Field(default=None, description="By default that of the budget.")
    purpose: str = Field(
        min_length=3,
        max_length=400,
        pattern=r"^[^\x00-\x1f\x7f-\x9f\u2028\u2029]*$",
        description="What the release is for; officers and the ledger read it.",
    )


class Decision(_Body):
    """Why a request is approved or declined."""

    reason: Line = Field(default="", description="Shown to the analyst and kept.")


class Points(_Body):
    """Points at which a released function is asked."""

    points: list[list[float]] = Field(
        min_length=1, max_length=10_000, description="A number per axis and point."
    )
