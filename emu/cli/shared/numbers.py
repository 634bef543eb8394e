"""Numbers on a command line; errors name the type in words."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    _FunctionParam = click.ParamType[int | str]
else:
    _FunctionParam = click.ParamType  # before click 8.4 the class is not generic


class WholeNumber(click.IntRange):
    """A whole number within limits."""

    name = "whole number"


class RealNumber(click.FloatRange):
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
