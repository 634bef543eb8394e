"""Hostile rules of a switch: gotos in a circle, and mirrors to every vPort in each table of it.

The tables are nested to the maximum depth of tc's chains. Entries that ignore levels lead back to
the first one, which a kernel's own rules never do, and compare many fields of ever new flows.
"""

from __future__ import annotations

from collections.abc import Iterator

from attacks.boards import Shared
from attacks.entries import new_flows
from attacks.watch import Watch, pattern
from emu.device.port.eth.frame import Frame
from emu.driver.ethernet.flow_fields import OUTER, entry_fields, match, to_table
from emu.driver.ethernet.flows import Flows
from layouts.enums.cmd import Op
from layouts.enums.flow_table import FlowTableType

TABLES = 16
"""Number of tables in the circle."""
FRAMES = 64
_FIVE_TUPLE = match(
    ip_protocol=0xFF, tcp_sport=0xFFFF, tcp_dport=0xFFFF,
    src_ipv4_src_ipv6=(1 << 128) - 1, dst_ipv4_dst_ipv6=(1 << 128) - 1,
)  # fmt: skip


class Circle(Shared):
    """Circle of tables: each matches a flow that never arrives, then forwards to the next one."""

    mirrors = False
    """Whether each table also forwards to all vPorts."""

    def lead(self, fdb: Flows, table: int, ways: list[bytes]) -> None:
        tables = [table, *(fdb.table(0) for _ in range(TABLES - 1))]
        for one, next_ in zip(tables, [*tables[1:], table], strict=True):
            nobody = fdb.group(one, 0, 0, enable=OUTER, match_criteria=_FIVE_TUPLE)
            fdb.entry(one, 0, nobody, *ways, value=match(ip_protocol=0xFF))
            everybody = fdb.group(one, 1, 1)
            targets = [to_table(next_), *(ways if self.mirrors else ())]
            fields = entry_fields(one, 1, everybody, *targets)
            fdb.driver.must(
                Op.SET_FLOW_TABLE_ENTRY, table_type=FlowTableType.FDB, ignore_flow_level=1, **fields
            )


class Mirrors(Circle):
    """Circle of tables that also forward to all vPorts."""

    mirrors = True


def _take_all(board: Shared) -> Iterator[None]:
    frames = [Frame(data) for data in new_flows(FRAMES)]
    yield
    for frame in frames:
        board.take(frame)
    board.loop.run()


@pattern(f"gotos in a circle of {TABLES} tables of a switch, {FRAMES} new flows")
def circle(watch: Watch) -> Iterator[None]:
    yield from _take_all(Circle(watch))


@pattern(f"tables of a switch in a circle, each to all of 30 vPorts too, {FRAMES} new flows")
def mirrors(watch: Watch) -> Iterator[None]:
    board = Mirrors(watch)
    yield from _take_all(board)
    board.check(FRAMES)
