"""One test for many cases, where starting a test would cost more than a case does."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

CaseT = TypeVar("CaseT")


def for_each(
    cases: Mapping[str, CaseT],
) -> Callable[[Callable[[CaseT], None]], Callable[[], None]]:
    """Make a test of a check: it runs the check for every case, and a failure names the case."""

    def decorate(check: Callable[[CaseT], None]) -> Callable[[], None]:
        def test() -> None:
            assert cases
            for name, case in cases.items():
                try:
                    check(case)
                except BaseException as error:
                    error.add_note(f"case {name}")
                    raise

        test.__name__, test.__qualname__, test.__doc__ = (
            check.__name__,
            check.__qualname__,
            check.__doc__,
        )
        test.__module__ = check.__module__
        return test

    return decorate
