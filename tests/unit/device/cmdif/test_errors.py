"""Refusals: their texts and the syndromes made of them."""

import pytest

from emu.device.errors import CmdError, syndrome_of
from layouts.enums.cmd import Status


def test_detail_stays_out_of_the_syndrome():
    first = CmdError(Status.BAD_RES_ERR, "no such pd", "0x1")
    second = CmdError(Status.BAD_RES_ERR, "no such pd", "0x2")
    assert first.syndrome == second.syndrome == syndrome_of("no such pd")
    assert str(first) == "no such pd (0x1)"
    assert str(CmdError(Status.BAD_RES_ERR, "no such pd")) == "no such pd"


@pytest.mark.parametrize("reason", ["", "no such pd", "x" * 1000])
def test_syndrome_has_24_bits_and_is_never_zero(reason):
    assert 0 < syndrome_of(reason) < 1 << 24
