"""Multicast groups and their members: MCMemberRecord (IBTA volume 1, 15.2.5.17).

A full member's join creates a group and sets the parameters that all members must share. A group is
deleted with its last full member; only the broadcast groups of IPoIB always exist (RFC 4391,
chapter 5). The switches forward a group's packets by MLID to the ports that joined and listen. A
port delivers them to the attached queue pairs.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator, Set
from typing import TYPE_CHECKING

from emu.device.port.ib.endport import EndPort, mtu_code
from emu.device.port.partitions import PKEY_FULL_MEMBER, is_same_partition
from emu.server.net.ib.sa.group import (
    FULL,
    LINK_LOCAL,
    LISTENS,
    SCOPES,
    GroupMember,
    MulticastGroup,
    checked,
    ipoib_broadcast,
)
from emu.server.net.ib.sa.quantities import MTU, PACKET_LIFE_TIME, QUANTITIES, RATE, SHORTEST_LIFE
from emu.server.net.ib.sa.query import Query, SaError, check_capacity
from emu.server.net.ib.sa.worker import Job
from layouts.wire.bth import MULTICAST_LID
from layouts.wire.sa import SaStatus, SmTrap

if TYPE_CHECKING:
    from layouts.wire.sa import mcmember_rec

log = logging.getLogger(__name__)

MAX_GROUPS = 1024
MAX_GROUPS_OF_A_PORT = MAX_GROUPS // 4
MAX_PARTITIONS = 512
"""Maximum number of partitions with a broadcast group, so that ports with many partitions leave
capacity for the groups of others."""

_MEMBERS_FOR_A_STEP = 32
"""Number of members that leave a group in one step of the administrator's work."""

BROADCAST_MTU = 4096
BROADCAST_QKEY = 0x0B1B
BROADCAST_RATE = 3
"""10 Gb/s, so that any link is fast enough to join."""

_ASSIGNED_SIGNATURE = 0xA01B
"""Signature of a multicast GID that the administrator has chosen."""

_CREATES = ("qkey", "traffic_class", "pkey", "flow_label", "sl")
"""Fields that a join needs to create a group, besides those that every join needs."""
_JOINS = ("port_gid", "join_state")
_MUST_MATCH = ("qkey", "traffic_class", "sl", "flow_label", "scope", "mlid")
_SELECTED = tuple(name for quantity in QUANTITIES for name in quantity.fields)


class MulticastGroups:
    """All groups of the subnet; calls ``notify`` for each created and each deleted group.

    ``forward`` is called with an MLID and a port's GID when the port starts or stops listening, so
    that the manager can program the switches.
    """

    def __init__(
        self,
        notify: Callable[[SmTrap, bytes], None],
        forward: Callable[[int, bytes, bool], None],
    ) -> None:
        self._groups: dict[bytes, MulticastGroup] = {}
        self._notify = notify
        self._forward = forward
        self._next_mgid = 1

    def __len__(self) -> int:
        return len(self._groups)

    def keep_partitions(self, tables: Collection[tuple[int, ...]]) -> None:
        """Keep exactly the IPoIB broadcast groups of the partitions in these P_Key tables.

        The group of a partition that left all tables is deleted with its last member. Partitions
        above MAX_PARTITIONS, or groups above MAX_GROUPS, get none. No notice is sent.
        """
        partitions = {pkey | PKEY_FULL_MEMBER: None for pkeys in tables for pkey in pkeys}
        there = {group.pkey: group for group in self._groups.values() if group.is_permanent}
        for pkey in there.keys() - partitions.keys():
            self._close_partition(there[pkey])
        room = min(MAX_PARTITIONS - len(there.keys() & partitions.keys()), MAX_GROUPS - len(self))
        new = [pkey for pkey in partitions if pkey not in there]
        for pkey, mlid in zip(new[: max(room, 0)], self._free_mlids()):
            self._open_partition(pkey, mlid)

    def _open_partition(self, pkey: int, mlid: int) -> None:
        """Create a partition's broadcast group, or make an existing one permanent."""
        mgid = ipoib_broadcast(pkey)
        group = self._groups.get(mgid)
        if group is not None:
            group.is_permanent = True
            return
        self._groups[mgid] = MulticastGroup(
            mgid=mgid, mlid=mlid, qkey=BROADCAST_QKEY, pkey=pkey,
            mtu=mtu_code(BROADCAST_MTU), rate=BROADCAST_RATE, is_permanent=True,
        )  # fmt: skip

    def _close_partition(self, group: MulticastGroup) -> None:
        """Make a broadcast group deletable, and delete it now if it has no full member."""
        group.is_permanent = False
        if not group.is_alive:
            self._delete(group)

    def drop_ports(self, gids: Set[bytes]) -> Job:
        """Remove ports that left the subnet from all groups, with their routes.

        A group without full members is deleted, with a notice. Each step is one group.
        """
        for group in list(self._groups.values()):
            gone = gids & group.members.keys()
            for gid in gone:
                del group.members[gid]
                self._forward(group.mlid, gid, False)
            if gone:
                self._end_if_empty(group)
            yield 1 + len(gone) // _MEMBERS_FOR_A_STEP

    def join(self, query: Query[mcmember_rec]) -> list[mcmember_rec]:
        """Add join states to the port's membership, and return the record: SubnAdmSet.

        A full member's join creates an absent group with a notice. Raises SaError:
        REQ_INSUFFICIENT_COMPONENTS, REQ_INVALID_GID, REQ_INVALID for parameters that do not match,
        REQ_DENIED for a port in another partition, NO_RESOURCES.
        """
        query.need(*_JOINS)
        requested, port = query.requested, query.port_of_gid(query.requested.port_gid)
        if not requested.join_state:
            raise SaError(SaStatus.REQ_INVALID, "no join state")
        if not query.sees(port):
            raise SaError(SaStatus.REQ_DENIED, "port is in another partition")
        group = self._groups.get(requested.mgid) if query.has("mgid") else None
        if group is None:
            group = self._create(query, port)
        else:
            _check_joinable(query, group, port)
        by_proxy = int(port.lid != query.requester.lid)
        member = group.members.setdefault(port.gid, GroupMember(0, by_proxy))
        member.proxy_join &= by_proxy  # a port's own join is nobody else's to leave
        member.join_state |= requested.join_state
        self._forward(group.mlid, port.gid, bool(member.join_state & LISTENS))
        log.info("%s joins %s as %#x", port.gid.hex(), group.mgid.hex(), member.join_state)
        return [group.record(port.gid, member.join_state, member.proxy_join)]

    def leave(self, query: Query[mcmember_rec]) -> list[mcmember_rec]:
        """Remove join states from the port's membership, and return the record: SubnAdmDelete.

        The last full member's leave deletes the group. Raises SaError: REQ_INSUFFICIENT_COMPONENTS,
        REQ_INVALID without such a membership, REQ_DENIED for another port's own membership.
        """
        query.need("mgid", *_JOINS)
        requested = query.requested
        group = self._groups.get(requested.mgid)
        member = group.members.get(requested.port_gid) if group else None
        if group is None or member is None or not member.join_state & requested.join_state:
            raise SaError(SaStatus.REQ_INVALID, "no such membership")
        if requested.port_gid != query.requester.gid and not member.proxy_join:
            raise SaError(SaStatus.REQ_DENIED, "membership is another port's")
        member.join_state &= ~requested.join_state
        self._forward(group.mlid, requested.port_gid, bool(member.join_state & LISTENS))
        log.info(
            "%s leaves %s as %#x", requested.port_gid.hex(), group.mgid.hex(), requested.join_state
        )
        if not member.join_state:
            del group.members[requested.port_gid]
        self._end_if_empty(group)
        return [group.record(requested.port_gid, member.join_state, member.proxy_join)]

    def records(self, query: Query[mcmember_rec]) -> Iterator[mcmember_rec | None]:
        """Yield matching groups, and for a trusted requester also their members; None in between.

        Other requesters see only groups of their partitions. Serves SubnAdmGet and SubnAdmGetTable.
        """
        for group in list(self._groups.values()):
            yield None
            if not (query.is_trusted or group.is_open_to(query.requester)):
                continue
            if not group.fits(query):
                continue
            for record in _visible(query, group):
                yield record if query.selects(record, but=_SELECTED) else None

    def _create(self, query: Query[mcmember_rec], port: EndPort) -> MulticastGroup:
        """Create a group for a join, send its notice, and return the group.

        Raises SaError: REQ_INSUFFICIENT_COMPONENTS, NO_RESOURCES by ``check_capacity``, and
        REQ_INVALID. The latter is for a join that is not full, a bad MGID, unavailable MTU, rate or
        life time, or another partition.
        """
        query.need(*_CREATES)
        requested = query.requested
        if not requested.join_state & FULL:
            raise SaError(SaStatus.REQ_INVALID, "only a full member creates a group")
        creator = query.owner
        creators = [group.creator for group in self._groups.values()]
        check_capacity(creators, creator, MAX_GROUPS, MAX_GROUPS_OF_A_PORT, "groups")
        mtu = MTU.choose(query, port.mtu_code)
        rate = RATE.choose(query, port.rate)
        life_time = PACKET_LIFE_TIME.choose(query, SHORTEST_LIFE)
        if mtu is None or rate is None or life_time is None:
            raise SaError(SaStatus.REQ_INVALID, "MTU, rate or life time is not available")
        has_mgid = query.has("mgid") and any(requested.mgid)
        group = MulticastGroup(
            mgid=checked(requested.mgid) if has_mgid else self._new_mgid(query),
            mlid=next(self._free_mlids()),
            **{name: getattr(requested, name) for name in _CREATES},
            mtu=mtu,
            rate=rate,
            packet_life_time=life_time,
            hop_limit=requested.hop_limit if query.has("hop_limit") else 0,
            creator=creator,
        )
        if not group.is_open_to(port):
            raise SaError(SaStatus.REQ_INVALID, "port is not in the group's partition")
        self._groups[group.mgid] = group
        log.info("multicast group %s, MLID %#x", group.mgid.hex(), group.mlid)
        self._notify(SmTrap.MGID_CREATED, group.mgid)
        return group

    def _new_mgid(self, query: Query[mcmember_rec]) -> bytes:
        """Return an unused multicast GID for a join without one, in the requested scope.

        The default scope is link-local. Raises SaError with REQ_INVALID for a reserved scope.
        """
        scope = query.requested.scope if query.has("scope") else LINK_LOCAL
        if scope not in SCOPES:
            raise SaError(SaStatus.REQ_INVALID, f"scope {scope}")
        while True:
            head = bytes((0xFF, 0x10 | scope)) + _ASSIGNED_SIGNATURE.to_bytes(2, "big")
            mgid = head + self._next_mgid.to_bytes(12, "big")
            self._next_mgid += 1
            if mgid not in self._groups:
                return mgid

    def _free_mlids(self) -> Iterator[int]:
        used = {group.mlid for group in self._groups.values()}
        return (mlid for mlid in range(MULTICAST_LID, 0xFFFF) if mlid not in used)

    def _end_if_empty(self, group: MulticastGroup) -> None:
        """Delete a group without full members, with a notice; permanent groups stay."""
        if not group.is_alive and self._groups.get(group.mgid) is group:
            self._delete(group)
            log.info("multicast group %s is deleted", group.mgid.hex())
            self._notify(SmTrap.MGID_DELETED, group.mgid)

    def _delete(self, group: MulticastGroup) -> None:
        """Delete a group with the routes to its remaining members, because MLIDs are reused."""
        del self._groups[group.mgid]
        for gid in group.members:
            self._forward(group.mlid, gid, False)


def _check_joinable(query: Query[mcmember_rec], group: MulticastGroup, port: EndPort) -> None:
    """Check a join against the group's parameters, and the port's rate and MTU (15.2.5.17.2).

    Raises SaError with REQ_INVALID for a differing parameter, a worse port, or a port outside the
    partition.
    """
    record, requested = group.record(), query.requested
    for name in _MUST_MATCH:
        if query.has(name) and getattr(requested, name) != getattr(record, name):
            raise SaError(SaStatus.REQ_INVALID, f"group has another {name}")
    if query.has("pkey") and not is_same_partition(requested.pkey, group.pkey):
        raise SaError(SaStatus.REQ_INVALID, "group is in another partition")
    if not group.fits(query):
        raise SaError(SaStatus.REQ_INVALID, "group has another MTU, rate or life time")
    if MTU.is_worse(port.mtu_code, group.mtu) or RATE.is_worse(port.rate, group.rate):
        raise SaError(SaStatus.REQ_INVALID, "port's MTU or rate is below the group's")
    if not group.is_open_to(port):
        raise SaError(SaStatus.REQ_INVALID, "port is not in the group's partition")


def _visible(query: Query[mcmember_rec], group: MulticastGroup) -> Iterator[mcmember_rec]:
    """Yield the visible records of a group (15.4.1.2).

    A trusted requester sees each member, or one record of a group without members. Others see one
    record: their own membership if they ask by port GID.
    """
    if query.is_trusted:
        for gid, member in group.members.items():
            yield group.record(gid, member.join_state, member.proxy_join)
        if not group.members and not query.has("port_gid"):
            yield group.record()
        return
    own = group.members.get(query.requester.gid)
    if query.has("port_gid") and own is not None:
        yield group.record(query.requester.gid, own.join_state, own.proxy_join)
    else:
        yield group.record()
