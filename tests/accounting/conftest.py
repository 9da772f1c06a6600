import multiprocessing
import warnings

import pytest


def _report(call, answers):
    try:
        answers.put(repr(call()))
    except Exception as error:
        answers.put(f"{type(error).__name__}: {error}")


@pytest.fixture
def start_child():
    """Start a function in a forked child and give the process."""
    context = multiprocessing.get_context("fork")

    def start(target, *args):
        child = context.Process(target=target, args=args)
        with warnings.catch_warnings():  # newer Pythons warn of forks beside the runner's threads
            warnings.simplefilter("ignore", DeprecationWarning)
            child.start()
        return child

    return start


@pytest.fixture
def in_child(start_child):
    """Run a call in a forked child; give the repr of its result, or its error as text."""

    def run(call):
        answers = multiprocessing.get_context("fork").SimpleQueue()
        child = start_child(_report, call, answers)
        answer = answers.get()
        child.join()
        return answer

    return run
