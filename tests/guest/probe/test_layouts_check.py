"""Our structures are those of the driver in every suite's kernel."""

from __future__ import annotations

import pytest

from emu.guests.archive.names import DEFAULT_SUITE, SUITES
from emu.guests.image import image
from emu.guests.image.driver import driver_binaries
from layouts.btf import binaries
from layouts.btf.check import check
from layouts.btf.kernel_differences import KNOWN
from layouts.btf.report import What
from layouts.registry import structures

# The image may have to be built first.
pytestmark = [pytest.mark.guest, pytest.mark.timeout(900)]


@pytest.mark.parametrize(
    "of",
    [pytest.param(one, marks=[] if one == DEFAULT_SUITE else pytest.mark.slow) for one in SUITES],
)
def test_every_structure_is_the_drivers(of, tmp_path):
    driver = binaries.load(*driver_binaries(image.ensure(of), tmp_path))
    ours = structures()
    report = check(ours, driver.release, driver.btfs, KNOWN)
    assert report.differences == []
    assert report.unused == []
    absent = [difference for difference, _ in report.explained if difference.what is What.STRUCTURE]
    assert len(absent) < len(ours) / 3
