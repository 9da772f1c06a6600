"""What requests may say: every field, its kind and its limits."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

__all__ = [
    "AutoApproval",
    "ColumnFacts",
    "Decision",
    "FileFormat",
    "NewDataset",
    "NewJob",
    "NewPerson",
    "NewToken",
    "OpenDataset",
    "Points",
    "Quota",
]

Epsilon = Annotated[float, Field(gt=0, le=100, allow_inf_nan=False)]
Delta = Annotated[float, Field(ge=0, lt=0.1, allow_inf_nan=False)]
Name = Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9_.@-]+$")]
Line = Annotated[str, Field(max_length=400, pattern=r"^[^\x00-\x1f\x7f-\x9f\u2028\u2029]*$")]
Value = str | int | float | bool | None


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid", str_strip_whitespace=True)


class NewPerson(_Body):
    """A person and her role."""

    name: Name
    role: Literal["officer", "analyst", "auditor"]


class NewToken(_Body):
    """How long a token is good, and for what."""

    days: float = Field(default=30, gt=0, le=366, allow_inf_nan=False)
    scope: Literal["all", "read"] = "all"
    label: Line = ""


class NewDataset(_Body):
    """A data set: where its rows are, who is protected, and what may be spent."""

    name: Name
    path: str = Field(min_length=1, max_length=400, description="Inside of the data folder.")
    target: Line | None = None
    unit: Literal["record", "person"] = "record"
    relation: Literal["replace_one", "add_or_remove_one"] = "replace_one"
    protected: Line = Field(description="Who is protected, in plain words.")
    why: Line = Field(description="Why so much may be spent and not more.")
    epsilon: Epsilon | None = None
    delta: Delta = 1e-6
    kind: Literal["pure", "gaussian", "renyi"] | None = None
    budget: Name | None = Field(default=None, description="Share the budget of another data set.")
    auto_approve: float = Field(default=0.0, ge=0, le=100, allow_inf_nan=False)


class ColumnFacts(_Body):
    """All that is public about a column, as in a file of bounds; empty: as it was proposed."""

    type: Line | None = None
    lower: Value = None
    upper: Value = None
    categories: list[Value] | None = Field(default=None, max_length=10_000)
    labels: list[Value] | None = Field(default=None, max_length=10_000)
    left_out: bool | None = None
    ordered: bool | None = None
    log: bool | None = None
    missing: bool | None = None
    decimals: int | None = None
    parts: list[Line] | None = Field(default=None, max_length=10)
    format: Line | None = None
    person_rows: int | None = Field(default=None, ge=1, le=10**6)
    per_person: Literal["average", "sum"] | None = None

    def given(self) -> dict[str, Any]:
        """Give what was said."""
        return {key: getattr(self, key) for key in self.model_fields_set}


class FileFormat(_Body):
    """How the file is written as text, all of it; empty: as it was proposed."""

    delimiter: str | None = Field(default=None, max_length=4)
    quote: str | None = Field(default=None, max_length=4)
    decimal: str | None = Field(default=None, max_length=4)
    thousands: str | None = Field(default=None, max_length=4)
    encoding: str | None = Field(default=None, max_length=40)
    missing: list[str] | None = Field(default=None, max_length=100)

    def given(self) -> dict[str, Any]:
        """Give what was said."""
        return {key: getattr(self, key) for key in self.model_fields_set}


class OpenDataset(_Body):
    """The last declaration before a data set is opened."""

    one_row_per_person: bool = False


class Quota(_Body):
    """What an analyst may spend, and until when."""

    epsilon: Epsilon
    until: str | None = Field(default=None, max_length=40)


class AutoApproval(_Body):
    """Up to which epsilon a request needs no officer."""

    epsilon: float = Field(ge=0, le=100, allow_inf_nan=False)


class NewJob(_Body):
    """A request for a release."""

    kind: Literal["fit", "search", "fabricate", "density", "curve", "moments"] = "fit"
    estimator: str | None = Field(default=None, max_length=64)
    parameters: dict[str, Any] = Field(default_factory=dict, max_length=40)
    grid: dict[str, list[Any]] = Field(default_factory=dict, max_length=10)
    columns: list[Line] = Field(default_factory=list, max_length=100)
    rows: int | None = Field(default=None, ge=1, le=10**6)
    epsilon: Epsilon
    delta: Delta | None = None
    purpose: str = Field(
        min_length=3, max_length=400, pattern=r"^[^\x00-\x1f\x7f-\x9f\u2028\u2029]*$"
    )


class Decision(_Body):
    """Why a request is approved or declined."""

    reason: Line = ""


class Points(_Body):
    """Points at which a released function is asked."""

    points: list[list[float]] = Field(min_length=1, max_length=10_000)
