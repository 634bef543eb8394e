"""A subnet of ports that are only known by name, and what its administrator tells them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from emu.device.port.datagram import GSI_QKEY, Destination, Origin
from emu.device.port.ib.endport import EndPort
from emu.device.port.ib.port import DEFAULT_PKEY, SM_LID
from emu.driver.world.clock import HandClock
from emu.server.net.ib.sa import SubnetAdministrator
from layouts.wire import sa
from layouts.wire.components import Components
from layouts.wire.mads import BASE_VERSION, RESPONSE, MadStatus, Method, MgmtClass
from layouts.wire.sa import RmppFlags, RmppType, SaAttr, sa_mad

GUID = 0x0002_C903_0000_1000

RECORDS = {
    SaAttr.NODE_REC: sa.node_rec,
    SaAttr.PORT_INFO_REC: sa.portinfo_rec,
    SaAttr.PATH_REC: sa.path_rec,
    SaAttr.MC_MEMBER_REC: sa.mcmember_rec,
    SaAttr.SERVICE_REC: sa.service_rec,
    SaAttr.INFORM_INFO: sa.inform_info,
    SaAttr.INFORM_INFO_REC: sa.inform_info_rec,
}


def end_port(lid, **options):
    options = {"pkeys": (DEFAULT_PKEY,), "node_description": bytes(64)} | options
    return EndPort(lid=lid, port_guid=GUID + lid, node_guid=GUID + lid, **options)


@dataclass
class Answer:
    """What came back: the status, and the records it has."""

    mad: Any
    records: list

    @property
    def status(self):
        return self.mad.mad_hdr.status

    @property
    def record(self):
        assert self.status == MadStatus.SUCCESS, hex(self.status)
        (record,) = self.records
        return record


class Subnet:
    """Ports with LIDs from 1 on. MADs that are sent to one wait in its inbox."""

    def __init__(self, count=3, **options):
        self.clock = HandClock()
        self.ports = [end_port(lid, **options) for lid in range(1, count + 1)]
        self.inboxes = {}
        self.hosts = {}
        """Hosts by LID; a port that is not among them is a host of its own."""
        self.sa = SubnetAdministrator(
            lambda: self.ports, self._carry, self.clock,
            host_of=lambda lid: self.hosts.get(lid, lid),
        )  # fmt: skip
        self.sa.sweep()
        self.tid = 0x1000
        self.is_prompt = True
        """Rounds go by until what is sent has been dealt with."""

    def _carry(self, packet, origin):
        assert (origin.lid, origin.qpn, origin.qkey) == (SM_LID, 1, GSI_QKEY)
        assert packet.to.qkey == GSI_QKEY
        mad = sa_mad.view(b"".join(packet.data))
        assert len(mad.buf) == packet.length == sa_mad.size
        self.inboxes.setdefault(packet.to.lid, []).append(mad)

    def take(self, lid):
        """All that a port has been sent since the last look."""
        return self.inboxes.pop(lid, [])

    def port(self, lid):
        return next(port for port in self.ports if port.lid == lid)

    def gid(self, lid):
        return self.port(lid).gid

    def send(self, lid, data, *, qpn=1, qkey=GSI_QKEY, pkey=DEFAULT_PKEY, gid=None):
        to = Destination(1, GSI_QKEY, SM_LID, sl=0, path_bits=0, gid=gid)
        self.sa.receive(bytes(data), to, Origin(lid, qpn, pkey, qkey, self.gid_of(lid)))
        if self.is_prompt:
            self.clock.advance(0)

    def gid_of(self, lid):
        known = [port.gid for port in self.ports if port.lid == lid]
        return known[0] if known else bytes(16)

    def request(self, method, attr, mask=None, /, *, sm_key=0, attr_mod=0, **fields):
        """A MAD. ``fields`` are the record's; the mask has them all unless it is given."""
        self.tid += 1
        mad = sa_mad.new(
            mad_hdr={
                "base_version": BASE_VERSION, "mgmt_class": MgmtClass.SUBN_ADM,
                "class_version": sa.CLASS_VERSION, "method": method, "attr_id": attr,
                "tid": self.tid, "attr_mod": attr_mod,
            },
            sm_key=sm_key,
        )  # fmt: skip
        if attr in RECORDS:
            prm = RECORDS[attr]
            mad.data = bytes(prm.new(**fields)).ljust(sa.DATA_BYTES, b"\0")
            mad.comp_mask = Components(prm).mask_of(*(fields if mask is None else mask))
        return mad

    def ask(self, lid, method, attr, mask=None, /, **options):
        """Ask and take the one answer, a table in as many pieces as it takes."""
        request = self.request(method, attr, mask, **options)
        self.send(lid, request)
        (answer,) = self.take(lid)
        hdr = answer.mad_hdr
        assert (hdr.tid, hdr.attr_id) == (request.mad_hdr.tid, attr)
        assert hdr.method == RESPONSE | (Method.GET if method == Method.SET else method)
        if hdr.status != MadStatus.SUCCESS:
            return Answer(answer, [])
        prm = RECORDS.get(attr)
        if not answer.rmpp_hdr.rmpp_flags & RmppFlags.ACTIVE:
            return Answer(answer, [prm.view(answer.data)] if prm else [answer.data])
        data, size = self.collect(lid, request, answer), answer.attr_offset * 8
        return Answer(answer, [prm.view(data, at) for at in range(0, len(data), size or 1)])

    def collect(self, lid, request, first, window=3):
        """Receive a table as hw/mad_rmpp.c does: acknowledge every window."""
        assert not len(self.take(lid)), "one segment until the first acknowledgement"
        segments, room = [first], 1
        while not segments[-1].rmpp_hdr.rmpp_flags & RmppFlags.LAST:
            if len(segments) == room:
                room += window
                self.send(lid, self.ack(request, len(segments), room))
            segments += self.take(lid)
        self.send(lid, self.ack(request, len(segments), room))
        assert [part.rmpp_hdr.seg_num for part in segments] == list(range(1, len(segments) + 1))
        payload = len(b"".join(part.data for part in segments))
        last = segments[-1].rmpp_hdr.paylen_newwin - sa.SA_HDR_BYTES
        total = first.rmpp_hdr.paylen_newwin - len(segments) * sa.SA_HDR_BYTES
        assert total == payload - sa.DATA_BYTES + last
        return b"".join(part.data for part in segments)[:total]

    def ack(self, request, seg_num, window, **fields):
        """An acknowledgement: the request's header, as ib_mad sends it."""
        mad = sa_mad.new(mad_hdr=request.mad_hdr)
        mad.rmpp_hdr = {
            "rmpp_version": 1, "rmpp_type": RmppType.ACK, "rmpp_flags": RmppFlags.ACTIVE,
            "seg_num": seg_num, "paylen_newwin": window,
        } | fields  # fmt: skip
        return mad
