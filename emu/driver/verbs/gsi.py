"""QP1 as ib_mad uses it: management datagrams out of guest memory, and back into it."""

from __future__ import annotations

from emu.device.port.datagram import GSI_QKEY
from emu.device.port.ib.port import SM_LID
from layouts import sa
from layouts.enums import CqeOpcode, QpType
from layouts.mads import MAD_BYTES, Method, MgmtClass, pma_mad
from layouts.sa import JoinState, RmppFlags, RmppType, SaAttr, sa_mad

GRH_BYTES = 40
RECEIVES = 16


class Gsi:
    """A node's QP1, or another special queue pair, with receive requests posted."""

    def __init__(self, node, qp_type=QpType.QP1):
        self.node = node
        self.qp = node.queue_pair(qp_type)
        self.qp.init(q_key=GSI_QKEY, mtu=1, log_msg_max=8)
        self.qp.to_rtr(mtu=0, log_msg_max=0)
        self.qp.to_rts()
        self.out = node.region(4096)
        self.inbox = node.region(RECEIVES * 512)
        self.received = 0
        self.tid = 0x77
        for number in range(RECEIVES):
            self.qp.post_recv(self.inbox.sge(number * 512, GRH_BYTES + MAD_BYTES))

    def send(self, mad, lid=SM_LID, **to):
        """Send a MAD to QP1 of a LID, and let the device work."""
        self.out.write(bytes(mad))
        vector = {"rlid": lid, "dqp_dct": 1, "key": GSI_QKEY << 32} | to
        self.qp.datagram(vector, self.out.sge(0, MAD_BYTES))
        self.node.settle()

    def take(self):
        """(completion, MAD) of all that has arrived; each receive request is posted again."""
        found = []
        for completion in self.qp.cq.drain():
            if completion.opcode is CqeOpcode.REQ:
                continue
            assert completion.opcode is CqeOpcode.RESP_SEND
            assert completion.byte_cnt == GRH_BYTES + MAD_BYTES
            at = self.received % RECEIVES * 512
            found.append((completion, self.inbox.read(at + GRH_BYTES, MAD_BYTES)))
            self.qp.post_recv(self.inbox.sge(at, GRH_BYTES + MAD_BYTES))
            self.received += 1
        return found

    def header(self, mgmt_class, class_version, method, attr):
        self.tid += 1
        return {
            "base_version": 1, "mgmt_class": mgmt_class, "class_version": class_version,
            "method": method, "attr_id": attr, "tid": self.tid,
        }  # fmt: skip

    def ask_sa(self, method, attr, prm, **fields):
        """The administrator's answer: its MAD, and the records in it."""
        hdr = self.header(MgmtClass.SUBN_ADM, sa.CLASS_VERSION, method, attr)
        request = sa_mad.new(mad_hdr=hdr, comp_mask=sa.Components(prm).mask_of(*fields))
        request.data = bytes(prm.new(**fields)).ljust(sa.DATA_BYTES, b"\0")
        self.send(request)
        ((completion, data),) = self.take()
        assert (completion.slid, completion.flags_rqpn & 0xFFFFFF) == (SM_LID, 1)
        assert completion.immediate == 0xFFFF  # the P_Key (hw/cq.c:handle_responder)
        answer = sa_mad.view(data)
        if not answer.rmpp_hdr.rmpp_flags & RmppFlags.ACTIVE:
            return answer, [prm.view(answer.data)]
        table, step = self._collect(hdr, answer), answer.attr_offset * 8
        return answer, [prm.view(table, at) for at in range(0, len(table), step)]

    def _collect(self, hdr, first):
        segments = [first]
        while True:
            done = len(segments)
            ack = sa_mad.new(mad_hdr=hdr)
            ack.rmpp_hdr = {
                "rmpp_version": 1, "rmpp_type": RmppType.ACK, "rmpp_flags": RmppFlags.ACTIVE,
                "seg_num": done, "paylen_newwin": done + 2,
            }  # fmt: skip
            self.send(ack)
            if segments[-1].rmpp_hdr.rmpp_flags & RmppFlags.LAST:
                break
            segments += [sa_mad.view(data) for _, data in self.take()]
        length = first.rmpp_hdr.paylen_newwin - len(segments) * sa.SA_HDR_BYTES
        return b"".join(part.data for part in segments)[:length]

    def pma(self, method, attr, lid, prm=None, **fields):
        """What a port's performance management agent answers, as a MAD."""
        hdr = self.header(MgmtClass.PERF_MGMT, 1, method, attr)
        data = bytes(prm.new(**fields)) if prm else b""
        request = pma_mad.new(mad_hdr=hdr, data=data.ljust(192, b"\0"))
        self.send(request, lid)
        ((completion, data),) = self.take()
        assert completion.slid == lid
        answer = pma_mad.view(data)
        assert answer.mad_hdr.tid == hdr["tid"]
        return answer


def joined(node, mgid, join_state=JoinState.FULL_MEMBER, **fields):
    """Have a node's port join a multicast group, which is made if there is none; its MLID."""
    record = {
        "mgid": mgid, "port_gid": node.hca.ib.gid(0), "join_state": join_state, "pkey": 0xFFFF,
        "qkey": 0x1234, "traffic_class": 0, "flow_label": 0, "sl": 0,
    } | fields  # fmt: skip
    gsi = Gsi(node)
    answer, (found,) = gsi.ask_sa(Method.SET, SaAttr.MC_MEMBER_REC, sa.mcmember_rec, **record)
    assert not answer.mad_hdr.status, hex(answer.mad_hdr.status)
    gsi.qp.destroy()
    return found.mlid


def left(node, mgid, join_state=JoinState.FULL_MEMBER):
    """Have a node's port leave a group."""
    gsi = Gsi(node)
    record = {"mgid": mgid, "port_gid": node.hca.ib.gid(0), "join_state": join_state}
    answer, _ = gsi.ask_sa(Method.DELETE, SaAttr.MC_MEMBER_REC, sa.mcmember_rec, **record)
    assert not answer.mad_hdr.status, hex(answer.mad_hdr.status)
    gsi.qp.destroy()
