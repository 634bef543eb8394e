"""A slot's 64-byte command queue entry with its mailboxes: fetched from the driver and written
back.

The last byte of the entry holds the ownership bit and is written last. Entry and mailboxes have
signatures when the driver has enabled them (PRM "Command interface").
"""

from __future__ import annotations

from collections.abc import Mapping
from struct import Struct
from typing import TYPE_CHECKING, Final

from emu.device.cmdif import mailbox
from emu.device.cmdif.mailbox import DeliveryError
from emu.device.cmdif.registry import Command
from emu.device.rounds.portions import Portions
from layouts.cmd import CMD_TYPE_PCIE, INLINE_BYTES, cmd_layout
from layouts.enums import DeliveryStat

if TYPE_CHECKING:
    from emu.device.state.hca import Hca

STATUS_OWN_OFFSET: Final = 0x3F
"""Offset of the delivery status and the ownership bit."""
_HEADER_BYTES: Final = 8
_IN_OFFSET: Final = 0x10
_OUT_OFFSET: Final = 0x20
_OUT_END: Final = _OUT_OFFSET + INLINE_BYTES
_SIG_OFFSET: Final = 0x3D
_FIELDS: Final = cmd_layout.packer("type", "inlen", "in_ptr", "out_ptr", "outlen", "token")
_LIST_BYTES: Final = 8
"""Unit of the lists behind a layout (pages, destinations, pairs of numbers), in bytes."""
_OPCODE: Final = Struct(">H")
_IN_LENGTH: Final = DeliveryStat.IN_LENGTH_ERR
_OUT_LENGTH: Final = DeliveryStat.OUT_LENGTH_ERR


class CommandRequest:
    """One delivered command in a slot: its input, and the buffers of its output.

    Source: PRM "Command queue entry".
    """

    __slots__ = ("address", "data", "entry", "in_blocks", "out", "out_blocks", "slot")

    def __init__(
        self,
        slot: int,
        address: int,
        entry: bytearray,
        data: bytearray,
        out: bytearray,
        in_blocks: list[int],
        out_blocks: list[int],
    ) -> None:
        """Store the fields; ``entry`` is a copy of the slot's entry, which is at ``address``."""
        self.slot = slot
        self.address = address
        self.entry = entry
        self.data = data
        self.out = out
        self.in_blocks = in_blocks
        self.out_blocks = out_blocks

    @property
    def opcode(self) -> int:
        """Opcode of the command, known or not."""
        return int.from_bytes(self.data[:2], "big")

    @property
    def op_mod(self) -> int:
        """The opcode modifier."""
        return int.from_bytes(self.data[6:8], "big")


def fetch(
    hca: Hca, commands: Mapping[int, Command], slot: int, address: int, entry: bytearray
) -> Portions[CommandRequest]:
    """Return the command in a queue entry, after checks of the entry and both mailbox chains.

    The output is only allocated, as zeros; a short input of a known opcode is padded. Raises
    DeliveryError: CMD_DESCR_ERR for a type other than PCIe, IN_LENGTH_ERR or OUT_LENGTH_ERR below 8
    bytes, and the errors of :func:`mailbox.walk`. With ``cmdif_checksum``, a wrong signature is
    SIGNAT_ERR. Raises DmaError for blocks that are unmapped meanwhile.
    """
    kind, inlen, in_ptr, out_ptr, outlen, token = _FIELDS.unpack(entry)
    if kind != CMD_TYPE_PCIE:
        raise DeliveryError(DeliveryStat.CMD_DESCR_ERR, f"command type {kind:#x}")
    if inlen < _HEADER_BYTES:
        raise DeliveryError(_IN_LENGTH, f"input of {inlen} bytes")
    if outlen < _HEADER_BYTES:
        raise DeliveryError(_OUT_LENGTH, f"output of {outlen} bytes")
    memory = hca.memory
    in_blocks: list[int] = []
    out_blocks: list[int] = []
    if inlen > INLINE_BYTES:
        in_blocks = yield from mailbox.walk(memory, in_ptr, inlen, token, _IN_LENGTH)
    if outlen > INLINE_BYTES:
        out_blocks = yield from mailbox.walk(memory, out_ptr, outlen, token, _OUT_LENGTH)
    if hca.caps.has_cmd_signatures:
        if mailbox.xor8(entry) != 0xFF:
            raise DeliveryError(DeliveryStat.SIGNAT_ERR, "queue entry")
        yield from mailbox.check_signatures(memory, in_blocks)
    if in_blocks:
        inline = bytes(entry[_IN_OFFSET:_OUT_OFFSET])
        data = yield from mailbox.gather(memory, inline, in_blocks, inlen)
    else:
        data = entry[_IN_OFFSET : _IN_OFFSET + min(inlen, INLINE_BYTES)]
    command = commands.get(_OPCODE.unpack_from(data)[0])
    if command is not None and len(data) != command.size_in:
        _pad(command, data)
    return CommandRequest(slot, address, entry, data, bytearray(outlen), in_blocks, out_blocks)


def _pad(command: Command, data: bytearray) -> None:
    """Pad an accepted input in place: to its layout, and to a whole last entry of its list.

    An input shorter than ``min_in`` stays, because it is refused later. Snabb's driver
    (apps/mellanox/connectx.lua) leaves out the reserved half of the last destination of a flow
    table entry.
    """
    if command.min_in <= len(data):
        missing = command.size_in - len(data)
        data.extend(bytes(missing if missing > 0 else -len(data) % _LIST_BYTES))


def complete(hca: Hca, request: CommandRequest, delivery: int = DeliveryStat.OK) -> Portions[None]:
    """Write the command's output to guest memory and return its slot to the driver.

    The mailboxes are written first, signed if ``cmdif_checksum`` is set, then the entry with
    ``delivery`` as its status. Raises DmaError; the entry then stays owned by the device.
    """
    if request.out_blocks:
        yield from mailbox.scatter(hca.memory, request.out_blocks, request.out)
        if hca.caps.has_cmd_signatures:
            yield from mailbox.sign(hca.memory, request.out_blocks)
    request.entry[_OUT_OFFSET:_OUT_END] = request.out[:INLINE_BYTES].ljust(INLINE_BYTES, b"\0")
    write_back(hca, request.address, request.entry, delivery)


def write_back(hca: Hca, at: int, entry: bytearray, delivery: int) -> None:
    """Write an entry's output and signature, then ``delivery`` and the cleared ownership bit.

    The last byte returns the slot to the driver. Signs only with ``cmdif_checksum``. Raises
    DmaError.
    """
    entry[STATUS_OWN_OFFSET] = delivery << 1
    if hca.caps.has_cmd_signatures:
        entry[_SIG_OFFSET] = 0
        entry[_SIG_OFFSET] = ~mailbox.xor8(entry) & 0xFF
    memory = hca.memory
    memory.write(at + _OUT_OFFSET, entry[_OUT_OFFSET:STATUS_OWN_OFFSET])
    memory.write(at + STATUS_OWN_OFFSET, entry[STATUS_OWN_OFFSET:])
