"""Types of parameters: numbers and choices; help and errors name type and limits in words."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    _Choice = click.Choice[str]
    _FunctionParam = click.ParamType[int | str]
else:
    _Choice = click.Choice  # before click 8.2 the class is not generic
    _FunctionParam = click.ParamType  # before click 8.4 the class is not generic

_MAX_U64 = (1 << 64) - 1


class _Limited:
    """A number within the limits of the click type that a class inherits, in words."""

    name: str
    min: Any
    max: Any
    min_open: bool
    fail: Any
    _number_class: Any

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the number; fail for another word, and for a number outside of the limits."""
        try:
            number = self._number_class(value)
            is_finite = not isinstance(number, float) or math.isfinite(number)
        except ValueError:
            is_finite = False
        if not is_finite:
            self.fail(f"a {self.name} is needed, not {value!r}", param, ctx)
        is_low = self.min is not None and (
            number <= self.min if self.min_open else number < self.min
        )
        if is_low or (self.max is not None and number > self.max):
            self.fail(f"{self._describe_range()} is needed, not {value}", param, ctx)
        return number

    def _describe_range(self) -> str:
        """Return the limits in words; click shows them in help."""
        if self.min is None:
            return f"at most {self.max}"
        if self.max is None:
            return f"more than {self.min}" if self.min_open else f"at least {self.min}"
        most = "2^64 - 1" if self.max == _MAX_U64 else self.max
        return f"{'more than ' * self.min_open}{self.min} to {most}"


class WholeNumber(_Limited, click.IntRange):
    """A whole number within limits."""

    name = "whole number"


class RealNumber(_Limited, click.FloatRange):
    """A number within limits."""

    name = "number"


SECONDS = RealNumber(min=0, min_open=True)
"""A time that is not 0."""


class FunctionName(_FunctionParam):
    """The index of a function, or the name of a virtual one such as 0.vf1."""

    name = "function"

    def convert(
        self, value: str | int, param: click.Parameter | None, ctx: click.Context | None
    ) -> str | int:
        """Return the index as a number, the name as text; another word fails."""
        if isinstance(value, int) or re.fullmatch(r"[0-9]{1,3}", value, re.ASCII):
            return int(value)
        if not re.fullmatch(r"[0-9]{1,3}\.vf[0-9]{1,2}", value, re.ASCII):
            self.fail(f"{value!r} is neither a number nor a virtual function such as 0.vf1", param)
        return value


class NearChoice(_Choice):
    """One of several words; the error for another word lists similar ones."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the word; fail, with similar words, for one that is not a choice. Case counts."""
        if value not in self.choices:
            from emu.guests.options.kinds import Choice  # `exec` has no choice, and starts sooner

            self.fail(Choice(among=tuple(self.choices)).wrong(value), param, ctx)
        return str(value)
