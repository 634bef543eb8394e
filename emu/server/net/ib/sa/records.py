"""Records about ports, nodes and the administrator: NodeRecord, PortInfoRecord, class_port_info.

Source: IBTA volume 1, 15.2.5.1, 15.2.5.2, 13.4.8.1.
"""

from __future__ import annotations

from collections.abc import Iterator

from emu.server.net.ib.sa.query import Query
from layouts.wire.mads import BASE_VERSION, class_port_info
from layouts.wire.sa import CLASS_VERSION, SaCap, SaCap2, node_rec, portinfo_rec

RESP_TIME = 18
"""Code of the response time limit: 4.096 us * 2**18, about a second."""
CAP_MASK_MATCH = 1 << 31
"""Attribute modifier bit of a PortInfoRecord query: the given capability bits must be set, the
other ones are ignored."""


def class_port_infos(query: Query[class_port_info]) -> Iterator[class_port_info]:
    """Yield the administrator's capabilities: no redirection, and traps only by subscription."""
    yield class_port_info.new(
        base_version=BASE_VERSION,
        class_version=CLASS_VERSION,
        capability_mask=SaCap.UD_MULTICAST_SUP | SaCap.PORT_INFO_CAP_MASK_MATCH_SUP,
        cap_mask2_resp_time={
            "capability_mask2": SaCap2.SENDONLY_FULL_MEM_SUPPORT,
            "resp_time": RESP_TIME,
        },
    )


def node_records(query: Query[node_rec]) -> Iterator[node_rec | None]:
    """Yield a record for each visible and matching node, None for each other one."""
    for port in query.subnet.ports:
        record = node_rec.new(
            lid=port.lid, node_info=port.node_info(), node_desc=port.node_description
        )
        yield record if query.sees(port) and query.selects(record) else None


def portinfo_records(query: Query[portinfo_rec]) -> Iterator[portinfo_rec | None]:
    """Yield a record for each visible and matching port, None for each other one.

    With CAP_MASK_MATCH in the attribute modifier, the queried capability bits must be set and
    others are ignored.
    """
    by_capability = query.attr_mod & CAP_MASK_MATCH and query.has("port_info.cap_mask")
    but = ("port_info.cap_mask",) if by_capability else ()
    wanted_caps = query.requested.port_info.cap_mask if by_capability else 0
    for port in query.subnet.ports:
        record = portinfo_rec.new(lid=port.lid, port_num=port.port_num, port_info=port.port_info())
        has_caps = not wanted_caps & ~record.port_info.cap_mask
        is_wanted = query.sees(port) and has_caps and query.selects(record, but=but)
        yield record if is_wanted else None
