"""What pip's failures mean, and the Python of an image."""

from __future__ import annotations

import pytest

from emu.guests.errors import LabError
from emu.guests.image.wheels import Python, python_of, why_failed

PYTHON = Python("3.13", 41, "x86_64")
NONE = "ERROR: Could not find a version that satisfies the requirement a (from versions: none)\n"
SOME = "ERROR: Could not find a version that satisfies the requirement a==9 (from versions: 1, 2)\n"
NO_MATCH = "ERROR: No matching distribution found for a"


@pytest.mark.parametrize(
    ("errors", "log", "expected"),
    [
        (NONE + NO_MATCH, "404 Client Error: Not Found", "no package a"),
        (NONE + NO_MATCH, "Skipping link: none of the wheel's tags (cp311-cp311-linux_x86_64)",
         "a has no wheel for Python 3.13 on x86_64"),
        (NONE + NO_MATCH, "Skipping link: No sources permitted for a",
         "a has no wheel for Python 3.13 on x86_64"),
        (NONE + NO_MATCH, "WARNING: Retrying (Retry(total=4", "a: pip reaches no package index"),
        (f"{SOME}{NO_MATCH}==9 (from b)", "",
         "no a==9 (from b) for Python 3.13 on x86_64; the newest there is 2"),
        ("ERROR: a-1-cp311-cp311-linux_x86_64.whl is not a supported wheel on this platform.", "",
         "a-1-cp311-cp311-linux_x86_64.whl is not for Python 3.13 on x86_64"),
        ("a warning\nERROR: No space left\n", "", "No space left"),
        ("Killed\n", "", "Killed"),
        ("", "", "no output of pip"),
    ],
)  # fmt: skip
def test_a_failure_has_one_reason(errors, log, expected):
    assert why_failed(errors, log, PYTHON) == expected


def test_the_python_of_an_image():
    status = "Package: libc6\nVersion: 2.36-9\n\nPackage: python3\nVersion: 1:3.11.2-1+b1\n"
    assert python_of(status, "x86_64") == Python("3.11", 36, "x86_64")
    with pytest.raises(LabError, match="no version of python3"):
        python_of("Package: libc6\nVersion: 2.36-9\n", "x86_64")
