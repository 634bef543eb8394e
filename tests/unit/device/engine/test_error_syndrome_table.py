"""The table of error syndromes: complete, and honest about what nobody has seen."""

import pytest

from emu.device.engine.events.error_syndromes import (
    ERROR_SYNDROMES,
    EVENT_SYNDROME,
    NOTHING,
    Cause,
    error_syndrome,
)
from layouts.enums.cqe import CqeOpcode, CqeSyndrome
from layouts.enums.eqe import EventType

REQ, RESP = CqeOpcode.REQ_ERR, CqeOpcode.RESP_ERR


@pytest.mark.parametrize("syndrome", CqeSyndrome)
def test_requesters_have_a_value_for_every_error(syndrome):
    causes = [Cause.ANY]
    if syndrome is CqeSyndrome.WR_FLUSH_ERR:
        causes = [Cause.COMMAND, Cause.FAILURE]
    assert all(error_syndrome(REQ, syndrome, cause).vendor for cause in causes)


def test_what_is_not_in_the_table():
    """A fault plan may ask for it."""
    assert error_syndrome(RESP, CqeSyndrome.RNR_RETRY_EXC_ERR) is NOTHING


def test_marks_of_the_table():
    """Whoever finds one of these in a public log changes its mark."""
    guessed = {
        (origin, syndrome, cause)
        for (origin, syndrome, cause), found in ERROR_SYNDROMES.items()
        if not found.is_seen
    }
    assert guessed == {
        (REQ, CqeSyndrome.BAD_RESP_ERR, Cause.ANY),
        (REQ, CqeSyndrome.LOCAL_ACCESS_ERR, Cause.ANY),
        (REQ, CqeSyndrome.REMOTE_ABORTED_ERR, Cause.ANY),
        (RESP, CqeSyndrome.LOCAL_LENGTH_ERR, Cause.ANY),
        (RESP, CqeSyndrome.WR_FLUSH_ERR, Cause.COMMAND),
        (RESP, CqeSyndrome.LOCAL_ACCESS_ERR, Cause.ANY),
        (EventType.WQ_ACCESS_ERROR, EVENT_SYNDROME, Cause.BOUNDS),
        (EventType.WQ_ACCESS_ERROR, EVENT_SYNDROME, Cause.MEMORY),
        (EventType.WQ_CATAS_ERROR, EVENT_SYNDROME, Cause.ANY),
        (EventType.WQ_CATAS_ERROR, EVENT_SYNDROME, Cause.RING),
    }


def test_marks_of_hardware_syndromes():
    """The values of public logs, each with its vendor syndrome."""
    seen = {(one.vendor, one.hw_type, one.hw) for one in ERROR_SYNDROMES.values() if one.is_hw_seen}
    assert seen == {
        (0x22, 0, 149), (0x32, 0, 146), (0x32, 0, 147), (0x33, 0, 157), (0x41, 0, 0), (0x51, 0, 2),
        (0x52, 0, 146), (0x53, 0, 157), (0x56, 0, 169), (0x68, 0, 31), (0x68, 1, 96), (0x78, 0, 8),
        (0x78, 0, 15), (0x81, 0, 0), (0x87, 0, 0), (0x88, 0, 0), (0x89, 0, 0),
    }  # fmt: skip
