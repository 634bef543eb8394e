"""Completions with scattered data, in a trace."""

import pytest

from emu.device.engine.events.completions import with_data
from emu.device.trace import decode
from layouts.enums.cqe import CqeOpcode
from layouts.rings.cqe import CQE

TEXT = bytes(range(1, 251))


@pytest.mark.parametrize("room", [32, 64])
def test_data_are_shown_apart(room):
    """Data are shown apart from the fields that they hide."""
    plain = CQE.pack(0, 0, 0, 7, 0, 20, 0, 0x123, 9)
    entry, form = with_data(plain, TEXT[:20].ljust(room, b"\xff"))
    shown = decode.completion(entry + bytes([CqeOpcode.RESP_SEND << 4 | form]))
    assert shown["qpn"] == 0x123
    assert shown["scattered"] == f"0x{TEXT[:20].hex()}"
    fields = shown["data"]
    assert isinstance(fields, dict)
    assert set(fields) == {"srqn", "byte_cnt", "sop_drop_qpn", "wqe_counter", "op_own"}
