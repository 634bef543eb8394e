"""A request to the subnet administrator, with the checks that all requests share.

Source: IBTA volume 1, 15.4 (operation), 15.4.1.1 (visibility of records), 15.4.4 (component mask).
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Generic, NamedTuple, TypeVar

from emu.device.port import partitions
from emu.device.port.datagram import Destination
from emu.device.port.ib.endport import EndPort
from layouts.prm import Prm
from layouts.wire.components import Components
from layouts.wire.mads import MadStatus
from layouts.wire.sa import SaStatus


class SaError(Exception):
    """A request that gets a response with a status and without records."""

    def __init__(self, status: SaStatus | MadStatus, why: str) -> None:
        super().__init__(why)
        self.status = status


class CapacityUser(NamedTuple):
    """The port that uses the administrator's capacity, and the host with that port."""

    port: Hashable
    host: Hashable


def of_a_host(most: int) -> int:
    """Return the share of ``most`` that all ports of one host have: virtual functions are many."""
    return most // 2


def limit_reached(
    owners: Collection[CapacityUser | None], owner: CapacityUser, most: int, of_a_port: int
) -> str:
    """Return the limit that allows no more of ``owner``'s, in words; else "".

    ``owners`` has the owner of each. ``most`` may exist, ``of_a_port`` of one port and half of them
    of one host, so that neither uses up those of the others.
    """
    if len(owners) >= most:
        return f"the limit is {most}"
    if sum(one is not None and one.port == owner.port for one in owners) >= of_a_port:
        return f"the limit of a port is {of_a_port}"
    if sum(one is not None and one.host == owner.host for one in owners) >= of_a_host(most):
        return f"the limit of a host is {of_a_host(most)}"
    return ""


def check_capacity(
    owners: Collection[CapacityUser | None],
    owner: CapacityUser,
    most: int,
    of_a_port: int,
    what: str,
) -> None:
    """Raise SaError, NO_RESOURCES, for one more of ``owner``'s beyond :func:`limit_reached`."""
    if limit := limit_reached(owners, owner, most, of_a_port):
        raise SaError(SaStatus.NO_RESOURCES, f"{limit} {what}")


class SubnetPorts:
    """A snapshot of the reachable ports."""

    def __init__(self, ports: Iterable[EndPort]) -> None:
        self.by_lid = {port.lid: port for port in ports}

    @cached_property
    def ports(self) -> tuple[EndPort, ...]:
        """All ports, in the order of their LIDs."""
        return tuple(port for _, port in sorted(self.by_lid.items()))

    @cached_property
    def by_gid(self) -> dict[bytes, EndPort]:
        """The ports by GID."""
        return {port.gid: port for port in self.ports}


RecordT_co = TypeVar("RecordT_co", bound=Prm, covariant=True)


@dataclass(frozen=True, slots=True)
class Query(Generic[RecordT_co]):
    """A request for records of one kind; ``requested`` is a view of the record in it."""

    attr_mod: int
    components: Components
    comp_mask: int
    requested: RecordT_co
    requester: EndPort
    is_trusted: bool
    subnet: SubnetPorts
    back: Destination
    """Destination of the response."""
    host: Hashable
    """The host of the requester."""

    @property
    def owner(self) -> CapacityUser:
        """The requester as the user of the administrator's capacity."""
        return CapacityUser(self.requester.gid, self.host)

    def has(self, *names: str) -> bool:
        """Return whether the component mask selects all of these fields."""
        need = self.components.mask_of(*names)
        return self.comp_mask & need == need

    def need(self, *names: str) -> None:
        """Raise SaError, REQ_INSUFFICIENT_COMPONENTS, unless the mask selects all these fields."""
        if not self.has(*names):
            raise SaError(SaStatus.REQ_INSUFFICIENT_COMPONENTS, f"needs {', '.join(names)}")

    def selects(self, record: Prm, *, but: Collection[str] = ()) -> bool:
        """Return whether a record equals the query in each selected field not in ``but``."""
        bits = self.components.record_bits(self.comp_mask & ~self.components.mask_of(*but))
        requested, found = (int.from_bytes(bytes(view), "big") for view in (self.requested, record))
        return not (requested ^ found) & bits

    def sees(self, port: EndPort) -> bool:
        """Return whether the requester may see a port: trusted, or in one of its partitions."""
        return self.is_trusted or shares_partition(self.requester, port)

    def port_of_gid(self, gid: bytes) -> EndPort:
        """Return the port with a GID. Raises SaError with REQ_INVALID_GID for an unknown one."""
        port = self.subnet.by_gid.get(gid)
        if port is None:
            raise SaError(SaStatus.REQ_INVALID_GID, f"no port has GID {gid.hex()}")
        return port


def shared_pkeys(one: EndPort, other: EndPort) -> Iterator[int]:
    """Return the P_Keys of ``one`` over which it can talk to ``other`` (IBTA 10.9.3)."""
    return partitions.common(one.pkeys, other.pkeys)


def shares_partition(one: EndPort, other: EndPort) -> bool:
    """Return whether two ports are the same or share a usable P_Key."""
    return one.lid == other.lid or any(True for _ in shared_pkeys(one, other))
