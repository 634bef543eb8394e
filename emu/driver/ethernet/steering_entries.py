"""Software-owned flow tables, written as by core/steering of the driver.

A queue pair that is its own peer writes the entries. An entry has the layout of ICM: its mask in
front of its tag.
"""

from __future__ import annotations

from typing import Any
from zlib import crc32

from emu.device.objects.memory.sw_icm import HEADER_MODIFY, STE_BYTES, STEERING, Area
from emu.driver.verbs.node import Node
from emu.driver.verbs.segments import PAGE
from layouts.enums.cmd import Op
from layouts.enums.flow_table import FlowTableType
from layouts.enums.general_object import GeneralObject
from layouts.enums.mkey import AccessMode
from layouts.memory.sw_icm import sw_icm
from layouts.steering.ste import ste_mask_and_match_v1, ste_match_bwc_v1

DONT_CARE = 0x000F
_MASKED = 2
_HALF = 16


def entry(
    lookup: int = DONT_CARE, *, mask: bytes = b"", tag: bytes = b"", miss: int = 0, hit: int = 0,
    size: int = 1, next_lookup: int = DONT_CARE, byte_mask: int = 0, action: bytes = b"",
    **fields: Any,
) -> bytes:  # fmt: skip
    """Return an entry that points to ``hit``: an object, or a table of ``size`` entries.

    With more than 8 bytes of actions its format has no byte mask. ``fields`` are of its structure.

    ``lookup`` is entry_format and match_definer_ctx_idx; ``mask`` and ``tag`` have 16 bytes, filled
    with zeros.
    """
    place = hit >> 5 | size
    common = {
        "entry_format": lookup >> 8, "match_definer_ctx_idx": lookup & 0xFF,
        "miss_address_39_32": miss >> 32, "miss_address_31_6": miss >> 6 & (1 << 26) - 1,
        "hash_definer_ctx_idx": next_lookup & 0xFF, "next_table_base_39_32_size": place >> 27,
        "next_table_base_31_5_size": place & (1 << 27) - 1,
    } | fields  # fmt: skip
    if len(action) > 8:
        common["entry_format"] = fields.get("entry_format", _MASKED)
        head = bytes(ste_mask_and_match_v1.new(**common, action=action.ljust(12, b"\0")))
    else:
        common = {"byte_mask": byte_mask, "next_entry_format": next_lookup >> 8} | common
        head = bytes(ste_match_bwc_v1.new(**common, action=action.ljust(8, b"\0")))
    return head + mask.ljust(_HALF, b"\0") + tag.ljust(_HALF, b"\0")


def always_miss(miss: int) -> bytes:
    """Return an entry that no packet matches (dr_ste.c: dr_ste_set_always_miss)."""
    return entry(tag=b"\xdc", miss=miss)


def index_of(tag: bytes, byte_mask: int, size: int) -> int:
    """Return the index at which a table holds an entry (dr_ste.c: mlx5dr_ste_calc_hash_index).

    ``size`` is the table's number of entries, a power of two.
    """
    masked = bytes(
        byte if byte_mask >> _HALF - 1 - at & 1 else 0
        for at, byte in enumerate(tag.ljust(_HALF, b"\0"))
    )
    crc = crc32(masked, 0xFFFFFFFF) ^ 0xFFFFFFFF
    return int.from_bytes(crc.to_bytes(4, "little"), "big") & size - 1


class Icm:
    """Range of software ICM, with the key that covers it."""

    def __init__(self, node: Node, start: int, log_size: int) -> None:
        self.node, self.start = node, start
        self.number: int = make_icm(node.driver, start, log_size)
        context = {
            "pd": node.pdn, "qpn": 0xFFFFFF, "access_mode_4_2": AccessMode.SW_ICM >> 2,
            "access_mode_1_0": AccessMode.SW_ICM & 3, "start_addr": start, "len": 1 << log_size,
            "lr": 1, "lw": 1, "rr": 1, "rw": 1,
        }  # fmt: skip
        self.index: int = node.driver.must(Op.CREATE_MKEY, memory_key_mkey_entry=context).mkey_index


def make_icm(driver: Any, start: int, log_size: int) -> int:
    """Create a range as a general object; return its number.

    Source: core/lib/dm.c: mlx5_dm_sw_icm_alloc. Raises DriverCommandError if refused.
    """
    given = bytes(sw_icm.new(sw_icm_start_addr=start, log_sw_icm_size=log_size))
    return int(
        driver.must(Op.CREATE_GENERAL_OBJECT, op_mod=GeneralObject.SW_ICM, extra=given).obj_id
    )


class SoftwareTables:
    """Queue pair that writes entries, and ranges of both kinds of ICM."""

    def __init__(self, node: Node, log_size: int = 20) -> None:
        self.node, self.driver = node, node.driver
        self.qp = node.queue_pair()
        self.qp.init()
        self.qp.to_rtr(qpn=self.qp.qpn, path={"fl": 1}).to_rts()
        self.entries = Icm(node, STEERING.start, log_size)
        self.actions = Icm(node, HEADER_MODIFY.start, 12)
        self._region = node.region(PAGE)
        self._next = STEERING.start

    def write(self, address: int, data: bytes, area: Area = STEERING) -> list[Any]:
        """Write into ICM, a page with each WQE; return the completions.

        The key of the range for ``area`` is used. A completion may be an error; no exception is
        raised.
        """
        icm = self.entries if area is STEERING else self.actions
        done = []
        for at in range(0, len(data), PAGE):
            part = data[at : at + PAGE]
            self._region.write(part)
            self.qp.write(
                (icm.index << 8, address + at - icm.start), self._region.sge(0, len(part))
            )
            self.node.settle()
            done += self.qp.cq.drain()
        return done

    def read(self, address: int, length: int = STE_BYTES) -> bytes:
        """Return bytes of the ICM of entries (STEERING), read by RDMA READ."""
        self.qp.read(
            (self.entries.index << 8, address - self.entries.start), self._region.sge(0, length)
        )
        self.node.settle()
        self.qp.cq.drain()
        return self._region.read(0, length)

    def place(self, *entries: bytes, size: int = 0) -> int:
        """Write consecutive entries into a new table of ``size`` entries; return its address.

        By default the size is the next power of two. Errors of the writes are not reported.
        """
        size = size or 1 << (len(entries) - 1).bit_length()
        bytes_of = STE_BYTES * size
        at = -(-self._next // bytes_of) * bytes_of
        self._next = at + bytes_of
        self.write(at, b"".join(entries))
        return at

    def table(
        self, root: int, table_type: FlowTableType = FlowTableType.NIC_RX, other_root: int = 0,
        level: int = 60,
    ) -> int:  # fmt: skip
        """Create a table whose root is an entry; return its number. An FDB has two roots.

        Raises DriverCommandError if refused.
        """
        context = {
            "sw_owner": 1, "level": level, "sw_owner_icm_root_0": root,
            "sw_owner_icm_root_1": other_root,
        }  # fmt: skip
        return int(
            self.driver.must(
                Op.CREATE_FLOW_TABLE, table_type=table_type, flow_table_context=context
            ).table_id
        )
