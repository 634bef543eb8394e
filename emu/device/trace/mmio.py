"""Names of the registers in BAR 0: initialization segment, MSI-X structures, doorbells.

Boot firmware's NIC is behind the segment, by the gateway alone.

Source of the doorbells: PRM "UAR page format"; cq.h (``mlx5_cq_arm``), core/eq.c (``eq_update_ci``)
and hw/wr.c (``mlx5r_ring_db``, which rings with the first 8 bytes of the WQE's control segment) of
Linux 6.12. MSI-X entries: PCI Express Base 5.0, 6.1.4.2; little-endian.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from emu.device.function.bar0 import NODNIC_AT
from emu.device.function.doorbells import (
    PAGE,
    SEND_SPACING,
    UAR_CQ_ARM,
    UAR_CQ_ARM_CQN,
    UAR_EQ_ARM,
    UAR_EQ_CI,
    UAR_SEND_NO_DBR,
)
from emu.device.function.msix import MSIX_ENTRY_BYTES, MSIX_PBA, MSIX_TABLE
from emu.device.ports import Buffer
from emu.device.state.hca import MSIX_VECTORS
from emu.device.trace import decode
from layouts.fields import FieldKind, Items, Nested
from layouts.function.iseg import init_seg
from layouts.function.nodnic import nodnic
from layouts.prm import Prm
from layouts.rings.doorbells import cq_doorbell, eq_doorbell, send_doorbell

_LONGEST_NUMBER = 8
_WIDEST_REGISTER = 64
"""Width limit in bits; a nested structure up to it is one register, a wider one holds several."""

_MSIX_ENTRY = ("message_address", "message_upper_address", "message_data", "vector_control")

_DOORBELLS = {
    UAR_CQ_ARM: ("CQ_ARM", cq_doorbell),
    UAR_CQ_ARM_CQN: ("CQ_ARM", None),
    UAR_EQ_ARM: ("EQ_ARM", eq_doorbell),
    UAR_EQ_CI: ("EQ_CI", eq_doorbell),
}


@dataclass(frozen=True, slots=True)
class _NamedRegister:
    """A named field of the initialization segment; offset and width in bits."""

    name: str
    offset: int
    width: int
    kind: FieldKind


def _registers(prm: type[Prm], prefix: str = "", base: int = 0) -> Iterator[_NamedRegister]:
    """Yield a structure's named fields: array items one by one, large structures by field."""
    for field in prm.fields:
        name, offset = prefix + field.name, base + field.offset
        kind = field.kind
        if isinstance(kind, Nested) and field.width > _WIDEST_REGISTER:
            yield from _registers(kind.prm, f"{name}.", offset)
        elif isinstance(kind, Items):
            item = kind.item
            for at in range(kind.count or 0):
                yield _NamedRegister(f"{name}[{at}]", offset + at * item.width, item.width, item)
        else:
            yield _NamedRegister(name, offset, field.width, kind)


_ISEG = tuple(_registers(init_seg))
_NODNIC = tuple(_registers(nodnic, base=NODNIC_AT * 8))


def describe(offset: int, data: Buffer, uar_end: int) -> dict[str, object]:
    """Return the keys of an mmio event from ``register`` on, for an access at ``offset`` of BAR 0.

    ``uar_end`` is the model's. ``register`` is missing where the offset has no name. Numbers are
    little-endian in the MSI-X structures and big-endian elsewhere.
    """
    if MSIX_TABLE <= offset < MSIX_TABLE + MSIX_VECTORS * MSIX_ENTRY_BYTES:
        vector, at = divmod(offset - MSIX_TABLE, MSIX_ENTRY_BYTES)
        register = f"msix_table.{_MSIX_ENTRY[at // 4]}"
        return {"register": register, "vector": vector, "value": _value(data, "little")}
    if MSIX_PBA <= offset < MSIX_PBA + MSIX_VECTORS // 8:
        return {"register": "msix_pba", "value": _value(data, "little")}
    return {"value": _value(data, "big")} | _register_of(offset, data, uar_end)


def _register_of(offset: int, data: Buffer, uar_end: int) -> dict[str, object]:
    """Return register name and fields in the initialization segment, device memory or a UAR."""
    if NODNIC_AT <= offset < NODNIC_AT + nodnic.size:
        return _in_nodnic(offset, data)
    if offset < init_seg.size:
        return _in_segment(offset, data)
    if offset >= uar_end:
        return {"register": "memic"}
    return _in_uar(offset, data)


def _value(data: Buffer, order: Any) -> int | str:
    if len(data) <= _LONGEST_NUMBER:
        return int.from_bytes(data, order)
    return decode.octets(data) or "0x0"


def _in_segment(offset: int, data: Buffer) -> dict[str, object]:
    """Return the names of the segment's registers that an access touches, joined by "/".

    The fields follow for a structured register that the access covers alone. Empty outside of any
    register.
    """
    start, end = offset * 8, (offset + len(data)) * 8
    items = [item for item in _ISEG if item.offset < end and start < item.offset + item.width]
    if not items:
        return {}
    shown: dict[str, object] = {"register": "/".join(item.name for item in items)}
    first = items[0]
    inside = start <= first.offset and first.offset + first.width <= end
    if len(items) == 1 and inside and isinstance(first.kind, Nested):
        at = (first.offset - start) // 8
        if fields := decode.fields(first.kind.prm.view(data, at)):
            shown["fields"] = fields
    return shown


def _in_nodnic(offset: int, data: Buffer) -> dict[str, object]:
    """Return the fields of the NIC that an access touches, zeros included: index 0, or a disable.

    A field that is longer than the access has the part that the access covers.
    """
    start, end = offset * 8, (offset + len(data)) * 8
    value, fields = int.from_bytes(data, "big"), {}
    for one in _NODNIC:
        first, last = max(start, one.offset), min(end, one.offset + one.width)
        if first < last:
            fields[one.name] = value >> end - last & (1 << last - first) - 1
    return {"register": "nodnic", "fields": fields} if fields else {}


def _sent(at: int) -> tuple[str, type[Prm] | None]:
    """Return the name and layout of a send doorbell, its second half, or a BlueFlame copy.

    The layout is None for the latter two.
    """
    within = at % SEND_SPACING
    if within == 0:
        return "SEND_DB", send_doorbell
    return "SEND_DB" if within == 4 else "BF", None


def _in_uar(offset: int, data: Buffer) -> dict[str, object]:
    """Return the UAR index of an access, with the doorbell's name and fields if it is one."""
    index, at = divmod(offset, PAGE)
    shown: dict[str, object] = {"uar": index}
    name, layout = _sent(at) if at >= UAR_SEND_NO_DBR else _DOORBELLS.get(at, ("", None))
    if name:
        shown["register"] = name
    if layout is not None and len(data) >= layout.size:
        # Zero fields of a doorbell are significant: index 0, or an opcode.
        shown["fields"] = layout.view(data).as_dict()
    return shown
