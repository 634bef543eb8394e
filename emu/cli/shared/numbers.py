"""Numbers on a command line; errors name the type in words."""

from __future__ import annotations

import click


class WholeNumber(click.IntRange):
    """A whole number within limits."""

    name = "whole number"


class RealNumber(click.FloatRange):
    """A number within limits."""

    name = "number"


SECONDS = RealNumber(min=0, min_open=True)
"""A time that is not 0."""
