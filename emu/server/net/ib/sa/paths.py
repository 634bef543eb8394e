"""PathRecord: the paths between two ports (IBTA volume 1, 15.2.5.16).

Every two ports of a partition have one path, in both directions, without a router: the hop limit is
0, so that senders use no GRH. The fabric has no quality of service: it grants the service level,
traffic class and flow label of a query.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator

from emu.device.port.ib.endport import EndPort
from emu.device.port.partitions import is_same_partition
from emu.server.net.ib.sa.quantities import MTU, PACKET_LIFE_TIME, RATE, SHORTEST_LIFE
from emu.server.net.ib.sa.query import Query, SaError, shared_pkeys
from layouts.wire.sa import SaStatus, Selector, path_rec

MAX_PAIRS = 4096
"""Maximum pairs of ports in a query; a query that names one end stays far below."""

_GRANTED = (
    "service_id_8msb", "service_id_56lsb", "flow_label", "hop_limit", "traffic_class", "qos_class",
    "sl",
)  # fmt: skip


def path_records(query: Query[path_rec]) -> Iterator[path_rec | None]:
    """Yield the paths that match a query, source by source; None for each mismatch.

    Raises SaError: NO_RESOURCES above MAX_PAIRS pairs, REQ_INVALID_GID for an unknown GID.
    """
    sources = yield from _ends(query, "sgid", "slid")
    destinations = yield from _ends(query, "dgid", "dlid")
    if len(sources) * len(destinations) > MAX_PAIRS:
        raise SaError(SaStatus.NO_RESOURCES, f"a query has at most {MAX_PAIRS} pairs of ports")
    for source in sources:
        for destination in destinations:
            yield _path(query, source, destination)


def _ends(
    query: Query[path_rec], gid_name: str, lid_name: str
) -> Generator[None, None, list[EndPort]]:
    """Return the ports that match one end of the path and that the requester sees.

    Without GID and LID, all ports match. Yields None after each examined port. Raises SaError with
    REQ_INVALID_GID.
    """
    if query.has(gid_name):
        ends = [query.port_of_gid(getattr(query.requested, gid_name))]
    else:
        ends = list(query.subnet.ports)
    if query.has(lid_name):
        ends = [port for port in ends if port.lid == getattr(query.requested, lid_name)]
    seen = []
    for port in ends:
        if query.sees(port):
            seen.append(port)
        yield None
    return seen


def _path(query: Query[path_rec], source: EndPort, destination: EndPort) -> path_rec | None:
    """Return the path between two ports; None when it does not match the query.

    None follows from raw traffic, no shared P_Key, or an unavailable MTU, rate or life time. The
    query's service level, traffic class and flow label are granted.
    """
    requested = query.requested
    if query.has("raw_traffic") and requested.raw_traffic:
        return None
    pkey = _pkey(query, source, destination)
    mtu = MTU.choose(query, MTU.worse(source.mtu_code, destination.mtu_code))
    rate = RATE.choose(query, RATE.worse(source.rate, destination.rate))
    life_time = PACKET_LIFE_TIME.choose(query, SHORTEST_LIFE)
    if pkey is None or mtu is None or rate is None or life_time is None:
        return None
    granted = {name: getattr(requested, name) for name in _GRANTED if query.has(name)}
    return path_rec.new(
        dgid=destination.gid, sgid=source.gid, dlid=destination.lid, slid=source.lid,
        reversible=1, numb_path=1, pkey=pkey, mtu_selector=Selector.EQ, mtu=mtu,
        rate_selector=Selector.EQ, rate=rate, packet_life_time_selector=Selector.EQ,
        packet_life_time=life_time, **granted,
    )  # fmt: skip


def _pkey(query: Query[path_rec], source: EndPort, destination: EndPort) -> int | None:
    """Return the first P_Key that both ends can use and that matches the query, or None."""
    for pkey in shared_pkeys(source, destination):
        if not query.has("pkey") or is_same_partition(pkey, query.requested.pkey):
            return pkey
    return None
