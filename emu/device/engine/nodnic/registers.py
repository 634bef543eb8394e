"""The registers of a NIC without DRAM, as its driver reads and writes them.

Interrupts are missing: INTx would carry them. The event queue's address is kept, and no event is
written there; iPXE polls.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from emu.device.engine.nodnic.send import send
from layouts.function.nodnic import PORT_AT, WRITABLE

if TYPE_CHECKING:
    from emu.device.objects.eth.nodnic import Nodnic
    from emu.device.port.eth.frame import Frame
    from emu.device.port.eth.vport import NicVport
    from emu.device.state.hca import Hca

_ENABLES: Final = PORT_AT + 4
_SEND_INDEX: Final = PORT_AT + 0x88
_ACTIVE: Final = 3


def read(vport: NicVport, nic: Nodnic, address: int) -> int | None:
    """Return a word; None outside the registers. The port's state and address are current."""
    registers = nic.registers
    if address % 4 or not 0 <= address < len(registers.buf):
        return None
    registers.port.state = _ACTIVE if vport.is_up else 0
    registers.port.own.mac = int.from_bytes(vport.permanent_address, "big")
    return int.from_bytes(registers.buf[address : address + 4], "big")


def write(
    hca: Hca, nic: Nodnic, address: int, value: int, forward: Callable[[Frame], None]
) -> bool:
    """Store the writable bits of a word, and send what the driver has posted by ``forward``.

    Return False, without a change, for a word without writable bits, and while the NIC is off.
    """
    mask = WRITABLE.get(address - PORT_AT)
    if mask is None or not nic.is_on:
        return False
    port, buf = nic.registers.port, nic.registers.buf
    was_open = port.network_en
    old = int.from_bytes(buf[address : address + 4], "big")
    buf[address : address + 4] = (old & ~mask | value & mask).to_bytes(4, "big")
    if address == _ENABLES and was_open and not port.network_en:
        nic.forget_rings()
        port.reset_needed = 0
    nic.most_posted = max(nic.most_posted, nic.receive_credits)
    if address in (_ENABLES, _SEND_INDEX) and nic.moves_data:
        send(hca, nic, forward)
    return True
