"""Frames that wait for a later round because this one has done enough."""

import pytest

from emu.device.engine.eth.receive import arrive, loop_back
from emu.device.port.eth.frame import Frame
from emu.device.rounds.backlog import MAX_WAITING
from emu.driver.ethernet.frames import EthPacket
from emu.driver.ethernet.interfaces import alloc_td

GROUP = bytes.fromhex("01005e000001")


@pytest.mark.hostile
@pytest.mark.parametrize("is_looped", [False, True], ids=["from the wire", "looped"])
def test_what_a_full_line_has_no_room_for_is_counted(hca, driver, is_looped):
    domain = hca.tds.need(alloc_td(driver))
    hca.budget.steps = hca.budget.limit + 1
    frame = Frame(GROUP + EthPacket().frame()[6:])
    for _ in range(MAX_WAITING + 3):
        if is_looped:
            loop_back(hca, frame, domain)
        else:
            arrive(hca, frame)
    assert hca.nic_vport.received.discards == 3
    assert len(hca.backlogs.rx) == MAX_WAITING
