"""Register RESOURCE_DUMP: the current state of objects, in segments.

``rdma resource show -r``, ``devlink health dump show`` of mlx5e's reporters and mstflint's
mstresourcedump read it. An answer is a stream: information about the firmware, the request, the
object, the end. The stream is written into the register, or to memory by a key, in several accesses
if space is short; device_opaque holds the progress. An object's memory may be too long for one
segment. Then there are several, and index2 of each is the number of bytes before it.

Sources: core/diag/rsc_dump.c, core/en/health.c, hw/restrack.c; mstflint's resourcedump_lib.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from emu.device.engine.mr.access import access
from emu.device.engine.mr.access_error import AccessError
from emu.device.errors import BadParamError, CmdError
from emu.device.objects.memory.key_context import ANY_QPN
from emu.device.objects.memory.rights import LOCAL_WRITE
from emu.device.objects.memory.views import copy
from emu.device.ports import DmaError
from firmware_cmds.regs.dump_sources import SOURCES, Contents, MissingError, Source, made
from firmware_cmds.regs.registers import AccessRegister
from layouts.enums.cmd import Status
from layouts.enums.regs import RegId
from layouts.regs import resource_dump as layout
from layouts.regs.resource_dump import SegmentType

if TYPE_CHECKING:
    from emu.device.models import Model
    from emu.device.state.hca import Hca

_DWORD = 4
_HEADER = layout.resource_dump_segment_header.size
_MAX_BYTES = 1 << 16
"""Maximum number of bytes of one access, whatever the space."""
_SEQ_NUM_MASK = 0xF
_DUMP_VERSION = 1
_NOT_FOUND = 1
"""Syndrome of the error segment."""
_NAME_BYTES = 15
_MAX_SEGMENT_BYTES = 1 << 17
"""Maximum size of a segment in bytes: length_dw has 16 bits."""


def _segment(prm: Any, kind: int, size: int = 0, **fields: Any) -> bytes:
    """Return a segment's fixed part, with its length in its header; ``size`` bytes follow it."""
    view = prm.new(**fields)
    view.segment_header.segment_type = kind
    view.segment_header.length_dw = (prm.size + size) // _DWORD
    return bytes(view)


def _info(model: Model) -> bytes:
    """Return the segment about dump, hardware and firmware versions."""
    return _segment(
        layout.resource_dump_info_segment, SegmentType.INFO, dump_version=_DUMP_VERSION,
        hw_version=model.hw_id, fw_version=model.fw_major << 16 | model.fw_minor,
    )  # fmt: skip


def _request_segment(reg: layout.resource_dump) -> bytes:
    """Return the segment that repeats the request."""
    names = ("index1", "index2", "num_of_obj1", "num_of_obj2")
    return _segment(
        layout.resource_dump_command_segment, SegmentType.COMMAND, segment_called=reg.segment_type,
        **{name: getattr(reg, name) for name in names},
    )  # fmt: skip


def _name(text: str) -> bytes:
    return text.encode()[:_NAME_BYTES].ljust(_NAME_BYTES + 1, b"\0")


def _record(number: int, source: Source) -> bytes:
    """Return a record of the menu: number, name and arguments of a kind of segment."""
    has_index = bool(source.index)
    return bytes(
        layout.resource_dump_menu_record.new(
            segment_type=number, segment_name=_name(source.name), index1_name=_name(source.index),
            support_index1=has_index, must_have_index1=has_index, support_num_of_obj1=has_index,
            support_num_of_obj2=source.is_list, num_of_obj2_supports_all=source.is_list,
        )
    )  # fmt: skip


def _menu() -> bytes:
    """Return the menu segment, with a record for each kind in SOURCES."""
    records = b"".join(_record(number, source) for number, source in SOURCES.items())
    head = _segment(
        layout.resource_dump_menu_segment, SegmentType.MENU, len(records),
        num_of_records=len(SOURCES),
    )  # fmt: skip
    return head + records


def _resource(hca: Hca, reg: layout.resource_dump) -> Contents:
    """Return the requested segments, or an error segment if the object does not exist.

    Raises BAD_PARAM_ERR for an unknown segment_type.
    """
    source = SOURCES.get(reg.segment_type)
    if source is None:
        raise BadParamError("unknown segment_type", f"{reg.segment_type:#x}")
    try:
        contents = source.read(hca, int(reg.index1))
    except (MissingError, CmdError):
        text = f"no {source.index} {reg.index1:#x}".encode().ljust(32, b"\0")
        segment = layout.resource_dump_error_segment
        return made(_segment(segment, SegmentType.ERROR, syndrome_id=_NOT_FOUND, error=text))
    return _in_segments(contents, reg.segment_type, reg.index1)


def _in_segments(contents: Contents, kind: int, index: int) -> Contents:
    """Return the contents in segments, whose heads are made when they are read.

    Memory of more than 128 KiB takes several: a ring of 256 MiB two thousand.
    """
    head = layout.resource_dump_resource_segment
    count = -(-contents.size // _MAX_SEGMENT_BYTES) or 1

    def read(at: int, length: int) -> bytes:
        number, within = divmod(at, head.size + _MAX_SEGMENT_BYTES)
        parts = []
        while length and number < count:
            first = number * _MAX_SEGMENT_BYTES
            size = min(contents.size - first, _MAX_SEGMENT_BYTES)
            data = _segment(head, kind, size, index1=index, index2=first)[within : within + length]
            within, length = max(within - head.size, 0), length - len(data)
            behind = min(length, size - within)
            parts += [data, contents.read(first + within, behind)] if behind else [data]
            number, within, length = number + 1, 0, length - behind
        return b"".join(parts)

    return Contents(contents.size + count * head.size, read)


def _stream(hca: Hca, reg: layout.resource_dump) -> list[Contents]:
    """Return the whole dump of a request: information, request, menu or object, end."""
    head = made(_info(hca.model) + _request_segment(reg))
    end = made(_segment_end())
    if reg.segment_type == SegmentType.MENU:
        return [head, made(_menu()), end]
    return [head, _resource(hca, reg), end]


def _segment_end() -> bytes:
    header = layout.resource_dump_segment_header
    return bytes(header.new(length_dw=1, segment_type=SegmentType.TERMINATE))


def _read_stream(stream: list[Contents], at: int, room: int) -> bytes:
    """Return at most ``room`` bytes of the stream from ``at`` on; none beyond its end."""
    parts = []
    for contents in stream:
        if at < contents.size and room:
            parts.append(contents.read(at, min(room, contents.size - at)))
            room -= len(parts[-1])
        at = max(0, at - contents.size)
    return b"".join(parts)


def _dump(hca: Hca, reg: layout.resource_dump) -> None:
    """Fill in the next chunk of a dump, or write it to memory by ``mkey``.

    device_opaque is the progress, 0 at the start and the end; more_dump says whether more follows.
    Refuse with BAD_PARAM_ERR a size of 0, progress beyond the end, an unknown segment_type, or
    memory that cannot be written. Unreadable rings get BAD_RES_STATE_ERR.
    """
    room = layout.INLINE_BYTES if reg.inline_dump else min(int(reg.size), _MAX_BYTES)
    room -= room % _DWORD
    if not room:
        raise BadParamError("no space for the dump", f"size {reg.size}")
    if not reg.device_opaque:
        hca.dumped.clear()
    stream = _stream(hca, reg)
    total, at = sum(contents.size for contents in stream), int(reg.device_opaque)
    if at > total:
        raise BadParamError("dump continues after its end", f"{at:#x}")
    try:
        data = _read_stream(stream, at, room)
    except DmaError as error:
        raise CmdError(
            Status.BAD_RES_STATE_ERR, "object's memory can no longer be read", str(error)
        ) from None
    _deliver(hca, reg, data)
    at += len(data)
    if at >= total:
        hca.dumped.clear()
    reg.size, reg.more_dump = len(data), at < total
    reg.device_opaque = at if at < total else 0
    reg.seq_num = reg.seq_num + 1 & _SEQ_NUM_MASK


def _deliver(hca: Hca, reg: layout.resource_dump, data: bytes) -> None:
    """Put a chunk into the register or memory; BAD_PARAM_ERR for memory that cannot be written."""
    if reg.inline_dump:
        reg.inline_data = data.ljust(layout.INLINE_BYTES, b"\0")
        return
    key = hca.mkeys.get(reg.mkey >> 8)
    span = (int(reg.address), len(data), LOCAL_WRITE)
    try:
        views = access(hca, None if key is None else key.pd, ANY_QPN, int(reg.mkey), span)
    except AccessError as error:
        raise BadParamError("mkey or address of the dump cannot be written", str(error)) from None
    copy(views, (memoryview(data),))


REGISTERS: dict[int, AccessRegister[Hca]] = {
    RegId.RESOURCE_DUMP: AccessRegister(layout.resource_dump, _dump, _dump, gate="debug")
}
"""Registers by number. Both methods of access are equal: the driver writes, mstflint reads."""
