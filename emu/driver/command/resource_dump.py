"""Stream of a resource dump, read as the driver and mstflint read it."""

from __future__ import annotations

from typing import Any, Protocol

from emu.driver.command.answer import expect
from emu.driver.command.commands import Commands
from layouts.enums.cmd import Status
from layouts.enums.regs import RegId
from layouts.regs import reg as access
from layouts.regs import resource_dump as layout
from layouts.regs.resource_dump import SegmentType

HEADER = layout.resource_dump_segment_header
RESOURCE = layout.resource_dump_resource_segment
_FIRST_SEQ = 14
"""First sequence number, shortly before the wrap."""


class Registered(Protocol):
    """Memory with a key (``emu.driver.verbs.region``)."""

    key: int
    va: int

    def read(self, at: int = 0, length: int | None = None) -> bytes:
        """Return its bytes."""


def access_once(
    driver: Commands, kind: int, index1: int = 0, op_mod: int = 1, **fields: Any
) -> Any:
    """Access the register once; return it as answered. Raises DriverError if it is refused.

    ``op_mod`` 1 reads, 0 writes; both make the device dump.
    """
    view = layout.resource_dump.new(segment_type=kind, index1=index1, **fields)
    answer = driver.write_register(RegId.RESOURCE_DUMP, bytes(view.buf), op_mod)
    expect(answer.status == Status.OK, f"RESOURCE_DUMP: {answer.status!r}")
    return layout.resource_dump.view(answer.raw[access.access_register_out.size :])


def inline(driver: Commands, kind: int, index1: int = 0) -> bytes:
    """Return a complete dump that the device writes into the register.

    Raises DriverError if an access is refused, or answers with a wrong sequence number.
    """
    data, opaque, number = b"", 0, _FIRST_SEQ
    while True:
        reg = access_once(
            driver, kind, index1, inline_dump=1, device_opaque=opaque, seq_num=number,
            num_of_obj1=1,
        )  # fmt: skip
        number = number + 1 & 15
        expect(reg.seq_num == number, f"sequence number {reg.seq_num}, not {number}")
        data += bytes(reg.inline_data)[: reg.size]
        if not reg.more_dump:
            return data
        opaque = reg.device_opaque


def in_memory(
    driver: Commands, region: Registered, kind: int, index1: int = 0, room: int = 128
) -> bytes:
    """Return a complete dump that the device writes to memory by a key.

    The driver sends each answer back unchanged, including its size. ``room`` is the size in bytes
    that the first access offers. Raises DriverError if an access is refused.
    """
    data, opaque, size = b"", 0, room
    while True:
        reg = access_once(
            driver, kind, index1, op_mod=0, mkey=region.key, address=region.va, size=size,
            device_opaque=opaque, num_of_obj1=1,
        )  # fmt: skip
        data, size, opaque = data + region.read(0, reg.size), reg.size, reg.device_opaque
        if not reg.more_dump:
            return data


def segments(data: bytes) -> list[tuple[int, bytes]]:
    """Return (type, bytes behind the header) of each segment.

    Raises DriverError for a length of 0, and for a header that is cut short.
    """
    parts: list[tuple[int, bytes]] = []
    while data:
        expect(len(data) >= HEADER.size, "a segment's header is cut short")
        head = HEADER.view(bytearray(data[: HEADER.size]))
        expect(head.length_dw, "a segment of no length")
        parts.append((head.segment_type, data[HEADER.size : 4 * head.length_dw]))
        data = data[4 * head.length_dw :]
    return parts


def payload(data: bytes) -> bytes:
    """Return the payload of the resource's segments, joined.

    Raises DriverError unless the dump begins with INFO and COMMAND and ends with TERMINATE.
    """
    parts = segments(data)
    kinds = [kind for kind, _ in parts]
    frame = [SegmentType.INFO, SegmentType.COMMAND, SegmentType.TERMINATE]
    expect([*kinds[:2], *kinds[2:][-1:]] == frame, f"segments {kinds[:2]} ... {kinds[2:][-1:]}")
    return b"".join(part[RESOURCE.size - HEADER.size :] for _, part in parts[2:-1])
