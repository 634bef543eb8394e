"""Modules of tests that cannot run on compiled code: they are not even collected there."""

from __future__ import annotations

import pytest

from emu.version import COMPILED, code


def pure_only(reason):
    """To be called by the module, behind its imports; a single test has the mark ``pure``."""
    if code() == COMPILED:
        pytest.skip(f"compiled: {reason}", allow_module_level=True)
