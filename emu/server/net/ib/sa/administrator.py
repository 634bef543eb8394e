"""The subnet administrator: requests to QP1 of the subnet manager's LID, and the responses.

Source: IBTA volume 1, 13.4 (MADs, their checks and statuses), 13.5.3 (the general service
interface), chapter 15 (subnet administration). A datagram that is malformed or needs no response is
dropped with a line in the debug log. Every other one is answered, if only with a status.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable, Iterable, Set
from dataclasses import dataclass
from typing import Any

from emu.device.port.base import NODE_DESCRIPTION_BYTES
from emu.device.port.datagram import GSI_QKEY, Datagram, Destination, Origin
from emu.device.port.ib.datagram import answer_to
from emu.device.port.ib.endport import EndPort, steps_of
from emu.device.port.ib.port import DEFAULT_PKEY, SM_LID, IbPort
from emu.device.ports import Clock
from emu.device.rounds.costs import STEPS_PER_RECORD
from emu.server.net.ib.sa.envelope import answer_head, envelope_fault
from emu.server.net.ib.sa.events import Subscriptions
from emu.server.net.ib.sa.multicast import MulticastGroups
from emu.server.net.ib.sa.paths import path_records
from emu.server.net.ib.sa.query import CapacityUser, Query, SaError, SubnetPorts, limit_reached
from emu.server.net.ib.sa.records import class_port_infos, node_records, portinfo_records
from emu.server.net.ib.sa.rmpp import Key, RmppSender, abort
from emu.server.net.ib.sa.services import Services
from emu.server.net.ib.sa.worker import Job, Worker
from emu.server.net.ib.sm import TRUSTED_SM_KEY, SmpSwitch, SwitchCounters
from layouts.enums.vport import CapMask1
from layouts.prm import Prm
from layouts.wire.components import Components, components
from layouts.wire.mads import (
    BASE_VERSION,
    RESPONSE,
    MadStatus,
    Method,
    MgmtClass,
    NodeType,
    class_port_info,
)
from layouts.wire.sa import (
    CLASS_VERSION,
    DATA_BYTES,
    RMPP_VERSION,
    RmppFlags,
    RmppStatus,
    RmppType,
    SaAttr,
    SaStatus,
    SmTrap,
    inform_info,
    inform_info_rec,
    mcmember_rec,
    node_rec,
    path_rec,
    portinfo_rec,
    sa_mad,
    service_rec,
)

log = logging.getLogger(__name__)

SM_GUID = 0x0002_C903_00E4_0000
MAX_RECORDS = 2048
"""Maximum number of records in a response."""
MAX_REQUESTS = 256
MAX_REQUESTS_OF_A_PORT = 32
"""Maximum number of queued requests; more are dropped, as any datagram may be."""
_COST_OF_A_REQUEST = 4
_PORTS_FOR_A_STEP = 128

_GSI_QPN = 1
_NO_ANSWER = (Method.SEND, Method.TRAP, Method.REPORT, Method.TRAP_REPRESS)
_METHODS = (Method.GET, Method.SET, Method.GET_TABLE, Method.DELETE)
_ONE_OF_MANY = SaAttr.PATH_REC
"""SubnAdmGet returns any of several paths; several records of other kinds are an error."""

Handler = Callable[[Query[Any]], Iterable[Prm | None]]
"""Yields the matching records, and None for each record that does not match."""


@dataclass(frozen=True, slots=True)
class _Attribute:
    """An attribute of the class: its record and its supported methods."""

    components: Components
    handlers: dict[Method, Handler]

    @property
    def prm(self) -> type[Prm]:
        return self.components.prm


class SubnetAdministrator:
    """Takes the subnet's ports from ``ports`` and sends datagrams with ``send``."""

    def __init__(
        self,
        ports: Callable[[], Iterable[EndPort]],
        send: Callable[[Datagram, Origin], None],
        clock: Clock,
        forward: Callable[[int, bytes, bool], None] = lambda mlid, gid, listens: None,
        function_at: Callable[[int], IbPort | None] = lambda lid: None,
        host_of: Callable[[int], Hashable] = lambda lid: lid,
    ) -> None:
        """Create the administrator; ``ports`` returns the active ports without the SA's own.

        ``function_at`` returns the port with a LID of a function of this process, ``host_of`` what
        identifies the host of a LID.

        ``forward`` receives an MLID, a port's GID and whether the MLID leads there
        (``MulticastGroups``).
        """
        port = EndPort(
            lid=SM_LID,
            port_guid=SM_GUID,
            node_guid=SM_GUID,
            pkeys=(DEFAULT_PKEY,),
            node_description=b"mlx5emu subnet manager".ljust(NODE_DESCRIPTION_BYTES, b"\0"),
            cap_mask=CapMask1.SM,
            node_type=NodeType.SWITCH,
            port_num=0,
        )
        self.switch = SmpSwitch(port, send)
        self._counters = SwitchCounters(self.switch.ports, function_at)
        self._ports = ports
        self._send = send
        self._clock = clock
        self._known: dict[bytes, EndPort] = {}
        """The ports of the latest sweep, by GID."""
        self.worker = Worker(clock)
        self._host_of = host_of
        self._requests: dict[Key, CapacityUser] = {}
        """Requests that are queued or in execution, with their ports and hosts."""
        self.subscriptions = Subscriptions(self.port.gid, self._send_mad, clock, self.worker)
        self.groups = MulticastGroups(self.subscriptions.notify, forward)
        self.services = Services(clock)
        self.transfers = RmppSender(clock, self.worker, host_of)
        self._attributes = self._make_attributes()

    @property
    def port(self) -> EndPort:
        """The administrator's port: the switch's management port."""
        return self.switch.port

    def lid_of(self, gid: bytes) -> int | None:
        """Return the LID of a port of the latest sweep; None for an unknown GID."""
        port = self._known.get(gid)
        return port.lid if port is not None else None

    def _make_attributes(self) -> dict[int, _Attribute]:
        """Return the supported attributes with their records and methods."""
        groups, services = self.groups, self.services
        table: dict[SaAttr, tuple[type[Prm], dict[Method, Handler]]] = {
            SaAttr.CLASS_PORTINFO: (class_port_info, {Method.GET: class_port_infos}),
            SaAttr.INFORM_INFO: (inform_info, {Method.SET: self.subscriptions.change}),
            SaAttr.INFORM_INFO_REC: (inform_info_rec, _reads(self.subscriptions.records)),
            SaAttr.NODE_REC: (node_rec, _reads(node_records)),
            SaAttr.PORT_INFO_REC: (portinfo_rec, _reads(portinfo_records)),
            SaAttr.PATH_REC: (path_rec, _reads(path_records)),
            SaAttr.MC_MEMBER_REC: (
                mcmember_rec,
                _reads(groups.records) | {Method.SET: groups.join, Method.DELETE: groups.leave},
            ),
            SaAttr.SERVICE_REC: (
                service_rec,
                _reads(services.records)
                | {Method.SET: services.announce, Method.DELETE: services.withdraw},
            ),
        }
        return {
            attr: _Attribute(components(prm), handlers) for attr, (prm, handlers) in table.items()
        }

    def sweep(self) -> None:
        """Compare the active ports with the last sweep; drop the records of ports that left.

        Subscribers receive a notice for each port that came or went. Ports leave their multicast
        groups in steps, before later requests. All that is charged to the round.
        """
        now = {port.gid: port for port in self._ports()}
        before, self._known = self._known, now
        self.switch.connect(now.values())
        gone = before.keys() - now.keys()
        if gone:
            self.subscriptions.drop_ports({before[gid].lid for gid in gone})
            self.services.drop_ports(gone)
        for gid in gone:
            log.info("LID %#x has left the subnet", before[gid].lid)
            self.subscriptions.notify(SmTrap.GID_OUT_OF_SERVICE, gid)
        for gid in now.keys() - before.keys():
            self.subscriptions.notify(SmTrap.GID_IN_SERVICE, gid)
        self.worker.begin(self._update_groups(gone))
        self._clock.budget.charge(steps_of(now.values()) + len(gone) * STEPS_PER_RECORD)

    def _update_groups(self, gone: Set[bytes]) -> Job:
        """Remove ports from the multicast groups; then adapt broadcast groups to the P_Keys."""
        if gone:
            yield from self.groups.drop_ports(gone)
        self.groups.keep_partitions(dict.fromkeys(port.pkeys for port in self._known.values()))

    def receive(self, data: bytes, to: Destination, origin: Origin) -> None:
        """Handle a datagram for QP1 at the SA's LID; ``data`` is its payload.

        Drop a datagram with a wrong size, Q_Key or P_Key, and a repeated request. A ReportResp ends
        its Report; RMPP packets go to their transfer. Requests are answered in steps within the
        budget.
        """
        wrong = envelope_fault(data, origin)
        if wrong:
            log.debug("LID %#x: datagram dropped: %s", origin.lid, wrong)
            return
        mad = sa_mad.view(data)
        hdr, key = mad.mad_hdr, (origin.lid, origin.qpn, mad.mad_hdr.tid)
        if hdr.method & RESPONSE or hdr.method in _NO_ANSWER:
            if hdr.method == Method.REPORT | RESPONSE:
                self.subscriptions.answered(origin.lid, hdr.tid)
            log.debug(
                "LID %#x: method %#x is not a request to the SA: ignored", origin.lid, hdr.method
            )
        elif hdr.mgmt_class == MgmtClass.SUBN_ADM and mad.rmpp_hdr.rmpp_flags & RmppFlags.ACTIVE:
            self._take_rmpp(key, mad, answer_to(to, origin))
        elif key not in self._requests and not self.transfers.has(key):
            self._take_request(key, mad, answer_to(to, origin))

    def _take_rmpp(self, key: Key, mad: sa_mad, to: Destination) -> None:
        """Pass an ACK, STOP or ABORT to its transfer; answer other RMPP packets with ABORT.

        Another version aborts with UNV, DATA with UNSPEC: requests fit into one MAD.
        """
        kind = mad.rmpp_hdr.rmpp_type
        if mad.rmpp_hdr.rmpp_version != RMPP_VERSION:
            self._send_mad(abort(answer_head(mad), RmppStatus.UNV), to)
        elif kind == RmppType.DATA:
            self._send_mad(abort(answer_head(mad), RmppStatus.UNSPEC), to)
        else:
            self.transfers.receive(key, mad)

    def _take_request(self, key: Key, mad: sa_mad, back: Destination) -> None:
        """Queue a request; drop it beyond MAX_REQUESTS, its host's half, or a port's limit."""
        owner = CapacityUser(key[0], self._host_of(key[0]))
        queued = self._requests.values()
        if limit := limit_reached(queued, owner, MAX_REQUESTS, MAX_REQUESTS_OF_A_PORT):
            log.debug("LID %#x: request dropped: %s requests", key[0], limit)
            return
        self._requests[key] = owner
        self.worker.begin(self._request(key, mad, back))

    def _request(self, key: Key, mad: sa_mad, back: Destination) -> Job:
        """Answer a request in steps, and remove it from the queued ones at the end."""
        try:
            yield from self._answer(mad, back)
        finally:
            self._requests.pop(key, None)

    def _answer(self, mad: sa_mad, back: Destination) -> Job:
        """Answer a request in steps: with records, counters, or the status of an SaError.

        Counters are those of the switch's ports. An unknown requester or an SM_Key other than 0
        and TRUSTED_SM_KEY gets no response. Each step yields its cost.
        """
        subnet = SubnetPorts((*self._ports(), self.port))
        yield _COST_OF_A_REQUEST + len(subnet.by_lid) // _PORTS_FOR_A_STEP
        if mad.mad_hdr.mgmt_class == MgmtClass.PERF_MGMT:
            yield len(subnet.by_lid)
            if (counters := self._counters.answer(bytes(mad))) is not None:
                self._send_mad(counters, back)
            return
        requester = subnet.by_lid.get(back.lid)
        if requester is None or mad.sm_key not in (0, TRUSTED_SM_KEY):
            log.info("LID %#x: wrong SM_Key %#x: no response", back.lid, mad.sm_key)
            return
        try:
            attribute, method = self._attribute_of(mad)
            if method is Method.GET_TABLE:
                self._need_capacity(mad, back)
            query = Query(
                attr_mod=mad.mad_hdr.attr_mod,
                components=attribute.components,
                comp_mask=mad.comp_mask,
                requested=attribute.prm.view(mad.data),
                requester=requester,
                is_trusted=mad.sm_key == TRUSTED_SM_KEY,
                subnet=subnet,
                back=back,
                host=self._host_of(back.lid),
            )
            records = []
            for record in attribute.handlers[method](query):
                yield 1
                if record is not None:
                    records.append(record)
                    _limit(records)
            self._send_records(mad, attribute, method, records, back)
        except SaError as error:
            log.debug("LID %#x: %s: %s", back.lid, error.status.name, error)
            answer = answer_head(mad, error.status)
            answer.data = mad.data
            self._send_mad(bytes(answer), back)

    def _attribute_of(self, mad: sa_mad) -> tuple[_Attribute, Method]:
        """Return the attribute and the method of a request.

        Raises SaError: BAD_VERSION, UNSUPPORTED_METHOD, or UNSUPPORTED_METHOD_ATTRIB.
        """
        hdr = mad.mad_hdr
        version = (hdr.base_version, hdr.mgmt_class, hdr.class_version)
        if version != (BASE_VERSION, MgmtClass.SUBN_ADM, CLASS_VERSION):
            raise SaError(MadStatus.BAD_VERSION, f"versions and class {version}")
        if hdr.method not in _METHODS:
            raise SaError(MadStatus.UNSUPPORTED_METHOD, f"method {hdr.method:#x}")
        attribute, method = self._attributes.get(hdr.attr_id), Method(hdr.method)
        if attribute is None or method not in attribute.handlers:
            raise SaError(MadStatus.UNSUPPORTED_METHOD_ATTRIB, f"{method.name} of {hdr.attr_id:#x}")
        return attribute, method

    def _send_records(
        self,
        mad: sa_mad,
        attribute: _Attribute,
        method: Method,
        records: list[Prm],
        back: Destination,
    ) -> None:
        """Send one record in a MAD, or a table by RMPP with records padded to 8 bytes (15.3.1).

        Raises SaError: NO_RECORDS for none, TOO_MANY_RECORDS for several of other kinds than paths,
        BUSY for a table too many. A table may be empty.
        """
        answer = answer_head(mad)
        answer.attr_offset = -(-attribute.prm.size // 8)
        if method is Method.GET_TABLE:
            key = self._need_capacity(mad, back)
            size = answer.attr_offset * 8
            table = b"".join(bytes(record).ljust(size, b"\0") for record in records)
            if not records:
                answer.attr_offset = 0
            self.transfers.start(key, answer, table, lambda data: self._send_mad(data, back))
            return
        if not records:
            raise SaError(SaStatus.NO_RECORDS, "no such record")
        if len(records) > 1 and mad.mad_hdr.attr_id != _ONE_OF_MANY:
            raise SaError(SaStatus.TOO_MANY_RECORDS, f"{len(records)} records")
        answer.data = bytes(records[0]).ljust(DATA_BYTES, b"\0")
        self._send_mad(bytes(answer), back)

    def _need_capacity(self, mad: sa_mad, back: Destination) -> Key:
        """Return the key of a further table transfer to the requester.

        Raises SaError with BUSY at the limits of transfers.
        """
        key = (back.lid, back.qpn, mad.mad_hdr.tid)
        if not self.transfers.may_start(key):
            raise SaError(MadStatus.BUSY, "too many tables in flight")
        return key

    def _send_mad(self, mad: bytes, to: Destination) -> None:
        origin = Origin(SM_LID, _GSI_QPN, DEFAULT_PKEY, GSI_QKEY, self.port.gid)
        self._send(Datagram(to, [memoryview(mad)], len(mad), None, False), origin)


def _limit(records: list[Prm]) -> None:
    """Raise SaError with NO_RESOURCES for more than MAX_RECORDS records."""
    if len(records) > MAX_RECORDS:
        raise SaError(SaStatus.NO_RESOURCES, f"more than {MAX_RECORDS} records")


def _reads(handler: Handler) -> dict[Method, Handler]:
    return {Method.GET: handler, Method.GET_TABLE: handler}
