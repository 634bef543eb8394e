"""ServiceRecord: services that ports announce, with a lease (IBTA 15.2.5.14)."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Set

from emu.device.port.partitions import is_same_partition
from emu.device.ports import Clock
from emu.server.net.ib.sa.query import CapacityUser, Query, SaError, check_capacity
from layouts.wire.sa import SaStatus, service_rec

log = logging.getLogger(__name__)

MAX_SERVICES = 1024
MAX_SERVICES_OF_A_PORT = MAX_SERVICES // 4
FOR_EVER = 0xFFFF_FFFF
_SECOND_NS = 1_000_000_000
_NO_KEY = bytes(16)

_Key = tuple[int, bytes, int]
"""Key of a service: id, GID and P_Key."""


class Services:
    """The announced services whose lease has not expired."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._services: dict[_Key, tuple[bytes, int | None, CapacityUser]] = {}
        """Records, their expiry in nanoseconds (None for never), and the announcer."""

    def __len__(self) -> int:
        return len(self._services)

    def announce(self, query: Query[service_rec]) -> list[service_rec]:
        """Register a service, or renew data and lease of a registered one: SubnAdmSet.

        Without a lease, the service stays for ever. Raises SaError: REQ_INSUFFICIENT_COMPONENTS,
        REQ_INVALID_GID, REQ_INVALID for another partition, REQ_DENIED for a wrong service key,
        NO_RESOURCES by ``check_capacity``.
        """
        query.need("service_id", "service_gid", "service_pkey")
        self._forget_old()
        record = _copy(query.requested)
        port = query.port_of_gid(record.service_gid)
        if not query.sees(port) or not _has_pkey(query, record.service_pkey):
            raise SaError(SaStatus.REQ_INVALID, "service is in another partition")
        if not query.has("service_lease"):
            record.service_lease = FOR_EVER
        key = _key(record)
        self._check_key(query, key)
        announcer = query.owner
        if key not in self._services:
            announcers = [entry[2] for entry in self._services.values()]
            check_capacity(announcers, announcer, MAX_SERVICES, MAX_SERVICES_OF_A_PORT, "services")
        else:
            announcer = self._services[key][2]
        lease = record.service_lease
        end = None if lease == FOR_EVER else self._clock.now_ns() + lease * _SECOND_NS
        self._services[key] = (bytes(record), end, announcer)
        log.info("service %#x at %s", record.service_id, record.service_gid.hex())
        return [record]

    def withdraw(self, query: Query[service_rec]) -> list[service_rec]:
        """Remove a service and return its record: SubnAdmDelete.

        Raises SaError: REQ_INSUFFICIENT_COMPONENTS, NO_RECORDS for a service that is unknown or in
        another partition, REQ_DENIED for a wrong service key.
        """
        query.need("service_id", "service_gid", "service_pkey")
        self._forget_old()
        key = _key(query.requested)
        if key not in self._services or not _has_pkey(query, query.requested.service_pkey):
            raise SaError(SaStatus.NO_RECORDS, "no such service")
        self._check_key(query, key)
        record, *_ = self._services.pop(key)
        log.info("service %#x at %s withdrawn", key[0], key[1].hex())
        return [service_rec.view(record)]

    def records(self, query: Query[service_rec]) -> Iterator[service_rec | None]:
        """Yield the requester's matching services with their remaining leases, None in between.

        Service keys are zero for untrusted requesters. Serves SubnAdmGet and SubnAdmGetTable.
        """
        self._forget_old()
        for data, end, _ in list(self._services.values()):
            record = service_rec.view(bytearray(data))
            if end is not None:
                record.service_lease = max(end - self._clock.now_ns(), 0) // _SECOND_NS
            if not query.is_trusted:
                record.service_key = _NO_KEY
            is_wanted = _has_pkey(query, record.service_pkey) and query.selects(record)
            yield record if is_wanted else None

    def drop_ports(self, gids: Set[bytes]) -> None:
        """Remove the services of ports that left the subnet."""
        self._services = {key: entry for key, entry in self._services.items() if key[1] not in gids}

    def _check_key(self, query: Query[service_rec], key: _Key) -> None:
        """Raise SaError with REQ_DENIED if the service exists and has another key, not zero."""
        if key not in self._services:
            return
        owner = service_rec.view(self._services[key][0]).service_key
        if owner not in (_NO_KEY, query.requested.service_key):
            raise SaError(SaStatus.REQ_DENIED, "service has another key")

    def _forget_old(self) -> None:
        """Remove the services whose lease has expired."""
        now = self._clock.now_ns()
        self._services = {
            key: (data, end, announcer)
            for key, (data, end, announcer) in self._services.items()
            if end is None or end > now
        }


def _copy(requested: service_rec) -> service_rec:
    return requested.copy()


def _key(record: service_rec) -> _Key:
    return record.service_id, record.service_gid, record.service_pkey


def _has_pkey(query: Query[service_rec], pkey: int) -> bool:
    """Return whether the requester is in the partition of ``pkey``, or trusted."""
    return query.is_trusted or any(is_same_partition(mine, pkey) for mine in query.requester.pkeys)
