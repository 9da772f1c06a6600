"""States: every step that is not drawn is refused."""

from __future__ import annotations

import itertools

import pytest

from sfumato.exceptions import InvalidInputError
from sfumato.service.states import (
    ENDED,
    DatasetState,
    JobState,
    require_dataset_step,
    require_job_step,
)

# Written anew, not imported: what the page on the service says.
JOB_STEPS = {
    ("waiting", "queued"),
    ("waiting", "declined"),
    ("waiting", "cancelled"),
    ("queued", "running"),
    ("queued", "cancelled"),
    ("running", "released"),
    ("running", "refused"),
    ("running", "failed"),
    ("running", "lost"),
    ("running", "cancelled"),
    ("running", "queued"),
}
DATASET_STEPS = {
    ("describing", "proposed"),
    ("describing", "unreadable"),
    ("proposed", "open"),
    *((state, "retired") for state in ("describing", "unreadable", "proposed", "open")),
}


@pytest.mark.parametrize("step", list(itertools.product(JobState, JobState)))
def test_jobs_take_the_steps_that_are_drawn(step: tuple[JobState, JobState]) -> None:
    if tuple(map(str, step)) in JOB_STEPS:
        require_job_step(*step)
    else:
        with pytest.raises(InvalidInputError, match="cannot become"):
            require_job_step(*step)


@pytest.mark.parametrize("step", list(itertools.product(DatasetState, DatasetState)))
def test_data_sets_take_the_steps_that_are_drawn(step: tuple[DatasetState, DatasetState]) -> None:
    if tuple(map(str, step)) in DATASET_STEPS:
        require_dataset_step(*step)
    else:
        with pytest.raises(InvalidInputError, match="cannot become"):
            require_dataset_step(*step)


def test_what_has_ended_goes_nowhere() -> None:
    assert not [step for step in JOB_STEPS if step[0] in {str(state) for state in ENDED}]
