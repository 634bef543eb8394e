"""QP1 as ib_mad uses it: management datagrams sent from and received into guest memory."""

from __future__ import annotations

from typing import Any

from emu.device.port.datagram import GSI_QKEY
from emu.device.port.ib.port import SM_LID
from emu.driver.command.answer import DriverError, expect
from emu.driver.verbs.completions import Completion
from emu.driver.verbs.node import Node
from layouts.enums.cqe import CqeOpcode
from layouts.enums.qp import QpType
from layouts.prm import Prm
from layouts.wire import sa
from layouts.wire.components import components
from layouts.wire.mads import MAD_BYTES, Method, MgmtClass, pma_mad
from layouts.wire.sa import JoinState, RmppFlags, RmppType, SaAttr, sa_mad

GRH_BYTES = 40
RECEIVES = 16


class Gsi:
    """QP1 of a node, or another special queue pair, with receive WQEs posted."""

    def __init__(self, node: Node, qp_type: QpType = QpType.QP1) -> None:
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

    def send(self, mad: Any, lid: int = SM_LID, **to: Any) -> None:
        """Send a MAD of 256 bytes to QP1 of a LID, and let the device work.

        ``to`` replaces fields of the address vector. Completions stay for :meth:`take`.
        """
        self.out.write(bytes(mad))
        vector = {"rlid": lid, "dqp_dct": 1, "key": GSI_QKEY << 32} | to
        self.qp.datagram(vector, self.out.sge(0, MAD_BYTES))
        self.node.settle()

    def take(self) -> list[tuple[Completion, bytes]]:
        """Return (completion, MAD) of all received datagrams; post each receive WQE again.

        Send completions are dropped. Raises DriverError for another one that is no good receive of
        a MAD.
        """
        messages: list[tuple[Completion, bytes]] = []
        for completion in self.qp.cq.drain():
            if completion.opcode is CqeOpcode.REQ:
                continue
            if not isinstance(completion, Completion):
                raise DriverError(f"{completion} on a management queue")
            expect(completion.opcode is CqeOpcode.RESP_SEND, f"not a receive: {completion}")
            expect(completion.byte_cnt == GRH_BYTES + MAD_BYTES, f"not a MAD: {completion}")
            at = self.received % RECEIVES * 512
            messages.append((completion, self.inbox.read(at + GRH_BYTES, MAD_BYTES)))
            self.qp.post_recv(self.inbox.sge(at, GRH_BYTES + MAD_BYTES))
            self.received += 1
        return messages

    def header(self, mgmt_class: int, class_version: int, method: int, attr: int) -> dict[str, int]:
        """Return the fields of a request's mad_hdr; each call uses a new transaction id."""
        self.tid += 1
        return {
            "base_version": 1, "mgmt_class": mgmt_class, "class_version": class_version,
            "method": method, "attr_id": attr, "tid": self.tid,
        }  # fmt: skip

    def ask_sa(
        self, method: int, attr: int, prm: type[Prm], **fields: Any
    ) -> tuple[Any, list[Any]]:
        """Send a request to the administrator; return the answer's MAD, and its records as views.

        ``fields`` of a record of ``prm`` are the query, and the components of the mask. An answer
        with an error status returns too. Raises DriverError for an answer from elsewhere,
        ValueError for none.
        """
        hdr = self.header(MgmtClass.SUBN_ADM, sa.CLASS_VERSION, method, attr)
        request = sa_mad.new(mad_hdr=hdr, comp_mask=components(prm).mask_of(*fields))
        request.data = bytes(prm.new(**fields)).ljust(sa.DATA_BYTES, b"\0")
        self.send(request)
        ((completion, data),) = self.take()
        source = (completion.slid, completion.flags_rqpn & 0xFFFFFF)
        expect(source == (SM_LID, 1), f"an answer of {source}")
        pkey = completion.immediate  # hw/cq.c:handle_responder
        expect(pkey == 0xFFFF, f"P_Key {pkey:#x}")
        answer = sa_mad.view(data)
        if not answer.rmpp_hdr.rmpp_flags & RmppFlags.ACTIVE:
            return answer, [prm.view(answer.data)]
        table, step = self._collect(hdr, answer), answer.attr_offset * 8
        return answer, [prm.view(table, at) for at in range(0, len(table), step)]

    def _collect(self, hdr: dict[str, int], first: Any) -> bytes:
        """Acknowledge an RMPP transfer up to its last segment; return the data without padding."""
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

    def pma(
        self, method: int, attr: int, lid: int, prm: type[Prm] | None = None, **fields: Any
    ) -> Any:
        """Send a request to a port's performance management agent; return its answer as a MAD.

        Raises DriverError for an answer from another LID or to another request, ValueError for
        none.
        """
        hdr = self.header(MgmtClass.PERF_MGMT, 1, method, attr)
        data = bytes(prm.new(**fields)) if prm else b""
        request = pma_mad.new(mad_hdr=hdr, data=data.ljust(192, b"\0"))
        self.send(request, lid)
        ((completion, data),) = self.take()
        expect(completion.slid == lid, f"an answer of {completion.slid}")
        answer = pma_mad.view(data)
        expect(answer.mad_hdr.tid == hdr["tid"], "an answer to something else")
        return answer


def joined(
    node: Node, mgid: bytes, join_state: int = JoinState.FULL_MEMBER, **fields: object
) -> int:
    """Join a node's port to a multicast group, created if absent; return its MLID.

    Raises DriverError for an answer with an error status.
    """
    record = {
        "mgid": mgid, "port_gid": node.hca.ib.gid(0), "join_state": join_state, "pkey": 0xFFFF,
        "qkey": 0x1234, "traffic_class": 0, "flow_label": 0, "sl": 0,
    } | fields  # fmt: skip
    gsi = Gsi(node)
    answer, (record_out,) = gsi.ask_sa(Method.SET, SaAttr.MC_MEMBER_REC, sa.mcmember_rec, **record)
    expect(not answer.mad_hdr.status, f"status {answer.mad_hdr.status:#x}")
    gsi.qp.destroy()
    return int(record_out.mlid)


def left(node: Node, mgid: bytes) -> None:
    """Remove a node's port, a full member, from a group.

    Raises DriverError for an answer with an error status.
    """
    gsi = Gsi(node)
    record = {"mgid": mgid, "port_gid": node.hca.ib.gid(0), "join_state": JoinState.FULL_MEMBER}
    answer, _ = gsi.ask_sa(Method.DELETE, SaAttr.MC_MEMBER_REC, sa.mcmember_rec, **record)
    expect(not answer.mad_hdr.status, f"status {answer.mad_hdr.status:#x}")
    gsi.qp.destroy()
