"""Command interface from the driver's side: queue, mailboxes, doorbell (core/cmd.c).

Commands are polled. The driver uses only BAR accesses and guest memory. The same driver runs
against a function in this process and against one behind a vfio-user socket.
"""

from __future__ import annotations

from typing import Any, TypeVar

from emu.device.cmdif.registry import COMMANDS
from emu.device.ports import Interrupts
from emu.driver.command.answer import Answer, DriverCommandError, expect
from emu.driver.command.bar import Bar
from emu.driver.world.memory import Memory
from layouts import cmd
from layouts.enums.cmd import Op, Status
from layouts.enums.regs import RegId
from layouts.prm import Prm
from layouts.regs import reg

ViewT = TypeVar("ViewT", bound=Prm)

CMDIF_REV = 5
_REV, _QUEUE_HIGH, _QUEUE_LOW, _DOORBELL, _INITIALIZING = 0x004, 0x010, 0x014, 0x018, 0x1FC
"""Offsets in the initialization segment."""

Blocks = tuple[list[int], list[int]]
"""Addresses of a command's mailbox blocks: input, then output."""


class Commands:
    """Command queue of 32 slots in guest memory, and commands by their layouts."""

    def __init__(self, bar: Bar, memory: Memory, irqs: Interrupts | None = None) -> None:
        self.bar = bar
        self.memory = memory
        self.irqs = irqs
        self.queue = memory.alloc(4096)
        self.token = 0

    # -- registers

    def read32(self, offset: int) -> int:
        """Return a register of BAR 0."""
        return int.from_bytes(self.bar.read(offset, 4), "big")

    def write32(self, offset: int, value: int) -> None:
        """Write a register of BAR 0."""
        self.bar.write(offset, value.to_bytes(4, "big"))

    # -- the queue

    def attach(self) -> None:
        """Write the address of the command queue into the initialization segment.

        Raises DriverError for another interface revision than 5, and while the device initializes.
        Do not wait for it.
        """
        expect(self.read32(_REV) >> 16 == CMDIF_REV, "another command interface")
        expect(not self.read32(_INITIALIZING) >> 31, "the device is still initializing")
        self.set_queue()

    def set_queue(self) -> None:
        """Write the address of the command queue, also while the device initializes."""
        self.write32(_QUEUE_HIGH, self.queue >> 32)
        self.write32(_QUEUE_LOW, self.queue & 0xFFFFFFFF)

    def mailboxes(self, data: bytes, length: int, token: int) -> tuple[int, list[int]]:
        """Allocate a chain of blocks for ``length`` bytes, of which the first 16 are inline.

        Returns the first block's address (0 for none), and all addresses. Each block holds 512
        bytes and the ``token``. No block is needed for up to 16 bytes. ``data`` shorter than
        ``length`` is filled with zeros.
        """
        room = cmd.MAILBOX_DATA_BYTES
        count = -(-max(length - cmd.INLINE_BYTES, 0) // room)
        blocks = [self.memory.alloc(1024, 1024) for _ in range(count)]
        for number, address in enumerate(blocks):
            following = blocks[number + 1] if number + 1 < count else 0
            block = cmd.cmd_prot_block.new(next=following, block_num=number, token=token)
            part = data[cmd.INLINE_BYTES + room * number :][:room]
            block.data = bytes(part).ljust(room, b"\0")
            self.memory.write(address, block.buf)
        return (blocks[0] if blocks else 0), blocks

    def submit(self, data: bytes, outlen: int, slot: int = 0) -> Blocks:
        """Fill a slot for ``outlen`` bytes of output, without ringing; return its blocks.

        The device owns the slot from then on. Each command has a new token, 1 to 255.
        """
        self.token = self.token % 255 + 1
        in_ptr, in_blocks = self.mailboxes(data, len(data), self.token)
        out_ptr, out_blocks = self.mailboxes(b"", outlen, self.token)
        entry = cmd.cmd_layout.new(
            type=cmd.CMD_TYPE_PCIE, inlen=len(data), in_ptr=in_ptr, outlen=outlen,
            out_ptr=out_ptr, token=self.token, status_own=1,
        )  # fmt: skip
        setattr(entry, "in", bytes(data[:16]).ljust(16, b"\0"))
        self.memory.write(self.queue + 64 * slot, entry.buf)
        return in_blocks, out_blocks

    def ring(self, slots: int) -> None:
        """Ring the doorbell of the slots whose bits are set; return when the device is idle.

        Raises DriverError if the device never becomes idle.
        """
        self.write32(_DOORBELL, slots)
        self.bar.settle()

    def collect(self, blocks: Blocks, outlen: int, slot: int = 0) -> tuple[int, bytes]:
        """Return delivery status and output of a finished slot.

        Raises DriverError if the device owns it. A delivery status of 0 is OK. The mailbox blocks
        are freed.
        """
        in_blocks, out_blocks = blocks
        entry = cmd.cmd_layout.view(self.memory.read(self.queue + 64 * slot, 64))
        expect(not entry.status_own & 1, f"slot {slot} is still owned by the device")
        raw = entry.out + b"".join(self.memory.read(address, 512) for address in out_blocks)
        for address in (*in_blocks, *out_blocks):
            self.memory.free(address, 1024, 1024)
        return entry.status_own >> 1, raw[:outlen]

    def execute(self, data: bytes, outlen: int, slot: int = 0) -> tuple[int, bytes]:
        """Run one command, polled; return delivery status and output.

        Raises DriverError like ``collect``. A refused command raises nothing: its status is in the
        output.
        """
        blocks = self.submit(data, outlen, slot)
        self.ring(1 << slot)
        return self.collect(blocks, outlen, slot)

    # -- commands by their layouts

    def command(
        self, op: Op, *, op_mod: int = 0, extra: bytes = b"", out_extra: int = 0,
        _uid: int | None = None, **fields: Any,
    ) -> Answer:  # fmt: skip
        """Run a command by its layout; return its answer, refused or not.

        ``extra`` follows the fixed fields of the input, ``out_extra`` bytes those of the output.
        ``_uid`` is written into the header even where the layout reserves its field. Raises
        DriverError only if the command does not finish, KeyError for a command without a layout.
        """
        entry = COMMANDS[op]
        view = entry.layout_in.new(opcode=op, op_mod=op_mod, **fields)
        if _uid is not None:
            view.buf[2:4] = _uid.to_bytes(2, "big")
        data = bytes(view.buf) + bytes(extra)
        delivery, raw = self.execute(data, entry.layout_out.size + out_extra)
        return Answer(delivery, raw, entry.layout_out.view(bytearray(raw)))

    def must(self, op: Op, **fields: Any) -> Answer:
        """Run a command that must succeed; return its answer. Raises DriverCommandError.

        The error is raised for a delivery status other than 0, and for a refused command.
        """
        answer = self.command(op, **fields)
        if answer.delivery or answer.status:
            raise DriverCommandError(f"{op.name}: delivery {answer.delivery}, {answer.status!r}")
        return answer

    def write_register(self, register: RegId, data: bytes, op_mod: int = 0) -> Answer:
        """Write a register by ACCESS_REG, or read it with ``op_mod`` 1.

        The output ends with the register. Return the answer, refused or not. ``data`` is the
        register's contents, or its index fields for a read.
        """
        return self.command(
            Op.ACCESS_REG, op_mod=op_mod, register_id=register, extra=data, out_extra=len(data)
        )

    def read_register(self, register: RegId, layout: type[ViewT], **fields: Any) -> ViewT:
        """Read a register by ACCESS_REG; return its view.

        ``fields`` select the register's instance. Raises DriverError if refused. The command's
        delivery status is not checked.
        """
        view = layout.new(**fields)
        answer = self.write_register(register, bytes(view.buf), op_mod=1)
        expect(answer.status == Status.OK, f"{register!r}: {answer.status!r}")
        return layout.view(answer.raw[reg.access_register_out.size :])
