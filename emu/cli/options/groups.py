"""Named groups of options in a command's help."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

import cloup

F = TypeVar("F", bound=Callable[..., Any])

GUEST: Final = "Guest"
KERNEL: Final = "Kernel"
DEVICES: Final = "Devices and network"
TRACES: Final = "Faults and traces"
RESULTS: Final = "Results"
COVERAGE: Final = "Coverage"
COMMAND: Final = "Command"


class TitledGroup(cloup.OptionGroup):
    """A group of options; two with one title are the same group of a command.

    cloup stores a command's options in the group, so each option brings a group of its own.
    """

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TitledGroup) and other.title == self.title

    def __hash__(self) -> int:
        return hash(self.title)


def grouped_option(group: str, *names: str, **about: Any) -> Callable[[F], F]:
    """Return a decorator that adds an option; help of a cloup command shows it in ``group``.

    ``names`` and ``about`` are those of :func:`click.option`. Without a group the option is shown
    below "Other options".
    """

    def decorate(function: F) -> F:
        title = TitledGroup(group) if group else None
        return cloup.option(*names, group=title, **about)(function)

    return decorate
