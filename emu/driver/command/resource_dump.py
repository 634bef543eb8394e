"""The stream of a resource dump, read as the driver and mstflint read it."""

from __future__ import annotations

from layouts import reg as access
from layouts import resource_dump as layout
from layouts.enums import RegId, Status
from layouts.resource_dump import SegmentType

HEADER = layout.resource_dump_segment_header
RESOURCE = layout.resource_dump_resource_segment


def ask(driver, kind, index1=0, op_mod=1, **fields):
    """One access; the register as it comes back."""
    view = layout.resource_dump.new(segment_type=kind, index1=index1, **fields)
    answer = driver.write_register(RegId.RESOURCE_DUMP, bytes(view.buf), op_mod)
    assert answer.status == Status.OK
    return layout.resource_dump.view(answer.raw[access.access_register_out.size :])


def inline(driver, kind, index1=0):
    """All of a dump that comes in the register itself."""
    data, opaque, number = b"", 0, 14
    while True:
        reg = ask(
            driver, kind, index1, inline_dump=1, device_opaque=opaque, seq_num=number,
            num_of_obj1=1,
        )  # fmt: skip
        number = number + 1 & 15
        assert reg.seq_num == number
        data += bytes(reg.inline_data)[: reg.size]
        if not reg.more_dump:
            return data
        opaque = reg.device_opaque


def in_memory(driver, region, kind, index1=0, room=128):
    """The same by a memory key. The driver sends back what came, its size, too."""
    data, opaque, size = b"", 0, room
    while True:
        reg = ask(
            driver, kind, index1, op_mod=0, mkey=region.key, address=region.va, size=size,
            device_opaque=opaque, num_of_obj1=1,
        )  # fmt: skip
        data, size, opaque = data + region.read(0, reg.size), reg.size, reg.device_opaque
        if not reg.more_dump:
            return data


def segments(data):
    """(type, bytes behind the header) of each."""
    found = []
    while data:
        head = HEADER.view(bytearray(data[: HEADER.size]))
        assert head.length_dw
        found.append((head.segment_type, data[HEADER.size : 4 * head.length_dw]))
        data = data[4 * head.length_dw :]
    return found


def payload(data):
    """What the resource's segments hold."""
    (first, _), (second, _), *parts, (last, _) = segments(data)
    assert (first, second, last) == (
        SegmentType.INFO,
        SegmentType.COMMAND,
        SegmentType.TERMINATE,
    )
    return b"".join(part[RESOURCE.size - HEADER.size :] for _, part in parts)
