"""Fields of a command that request a feature the adapter does not have."""

from __future__ import annotations

from collections.abc import Iterable

from layouts.prm import Prm


def first_set(fields: Prm, names: Iterable[str]) -> str | None:
    """Return the first of ``names`` whose field is not zero; None when all are.

    The caller refuses the command, and states the reason as fixed text (``mlx5emu explain``). No
    error is raised here.
    """
    return next((name for name in names if getattr(fields, name)), None)
