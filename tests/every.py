"""One test for a whole list: quick where there are thousands, and every failure is named."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

T = TypeVar("T")


def for_each(things: Iterable[T]) -> Callable[[Callable[[T], None]], Callable[[], None]]:
    """Turn a check of one thing into one test of all; what fails is listed.

    Parameters
    ----------
    things : iterable
        What is checked.
    """
    listed = list(things)

    def decorate(check: Callable[[T], None]) -> Callable[[], None]:
        def test() -> None:
            failures = []
            for thing in listed:
                try:
                    check(thing)
                except AssertionError as error:
                    failures.append(f"{thing}: {error}")
            assert listed, "There is nothing to check."
            assert not failures, "\n".join(failures)

        test.__name__, test.__doc__ = check.__name__, check.__doc__
        return test

    return decorate
