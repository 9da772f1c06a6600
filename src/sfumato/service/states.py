"""The states of data sets and jobs, and the ways between them."""

from __future__ import annotations

from enum import StrEnum

from sfumato.exceptions import InvalidInputError


class DatasetState(StrEnum):
    """What can be done with a data set."""

    DESCRIBING = "describing"  # a worker reads it, to propose bounds
    UNREADABLE = "unreadable"  # it could not be read
    PROPOSED = "proposed"  # an officer confirms its bounds, column by column
    OPEN = "open"  # analysts may ask
    RETIRED = "retired"  # no more releases; the ledger stays


class JobState(StrEnum):
    """Where a request stands."""

    WAITING = "waiting"  # for an officer
    QUEUED = "queued"  # for a worker
    RUNNING = "running"
    RELEASED = "released"
    DECLINED = "declined"  # by an officer; nothing was charged
    CANCELLED = "cancelled"  # before it was charged
    REFUSED = "refused"  # by the budget; nothing was charged
    FAILED = "failed"  # nothing was charged
    LOST = "lost"  # charged, and then nothing was shown: the charge stands


ENDED = frozenset(
    {
        JobState.RELEASED,
        JobState.DECLINED,
        JobState.CANCELLED,
        JobState.REFUSED,
        JobState.FAILED,
        JobState.LOST,
    }
)

_DATASET_STEPS = {
    DatasetState.DESCRIBING: {DatasetState.PROPOSED, DatasetState.UNREADABLE, DatasetState.RETIRED},
    DatasetState.UNREADABLE: {DatasetState.RETIRED},
    DatasetState.PROPOSED: {DatasetState.OPEN, DatasetState.RETIRED},
    DatasetState.OPEN: {DatasetState.RETIRED},
    DatasetState.RETIRED: set(),
}
_JOB_STEPS = {
    JobState.WAITING: {JobState.QUEUED, JobState.DECLINED, JobState.CANCELLED},
    JobState.QUEUED: {JobState.RUNNING, JobState.CANCELLED},
    JobState.RUNNING: {
        *(JobState.RELEASED, JobState.REFUSED, JobState.FAILED, JobState.LOST),
        *(JobState.CANCELLED, JobState.QUEUED),  # back only where nothing was charged
    },
}


def require_job_step(before: str, after: str) -> None:
    """Raise unless a job may go from one state to another."""
    if JobState(after) not in _JOB_STEPS.get(JobState(before), set()):
        raise InvalidInputError(f"A job that is {before} cannot become {after}.")


def require_dataset_step(before: str, after: str) -> None:
    """Raise unless a data set may go from one state to another."""
    if DatasetState(after) not in _DATASET_STEPS[DatasetState(before)]:
        raise InvalidInputError(f"A data set that is {before} cannot become {after}.")
