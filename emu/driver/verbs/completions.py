"""Completion queues of a verbs provider (hw/cq.c; rdma-core providers/mlx5/cq.c)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from emu.driver.command.answer import Answer, expect
from emu.driver.command.words import pack64, unpack64
from emu.driver.verbs.endpoint import Endpoint
from emu.driver.verbs.segments import PAGE
from layouts.enums.cmd import Op
from layouts.enums.cqe import CqeOpcode
from layouts.enums.eqe import EventType
from layouts.rings.cqe import SCATTER_32, SCATTER_32_BYTES, SCATTER_64, cqe64, err_cqe, sig_err_cqe
from layouts.rings.eqe import eqe_comp

CQE_BYTES = 64
SOLICITED_ONLY = 1 << 24
RESIZE, RESIZE_FIELDS = 1, 0b111
ERRORS = (CqeOpcode.REQ_ERR, CqeOpcode.RESP_ERR)
_read_cqe = cqe64.packer(
    "slid", "flags_rqpn", "hds_ip_ext", "l4_l3_hdr_type", "vlan_info", "srqn", "immediate",
    "byte_cnt", "timestamp_h+timestamp_l", "sop_drop_qpn", "wqe_counter",
).unpack_from  # fmt: skip
"""Reads a completion without error by one call: each message has one."""


@dataclass
class Completion:
    """Fields of a CQE that verbs use; absent numbers are 0."""

    opcode: CqeOpcode
    qpn: int
    wqe_counter: int
    """Number of the WQE, returned when it was posted; of a shared queue, the WQE's index."""
    byte_cnt: int = 0
    wqe_opcode: int = 0
    syndrome: int = 0
    immediate: int = 0
    srqn: int = 0
    slid: int = 0
    flags_rqpn: int = 0
    solicited: bool = False
    timestamp: int = 0
    vlan: int | None = None
    hds_ip_ext: int = 0
    """Correct checksums of a packet (CqeChecked)."""
    scattered: bytes | None = None
    """Data of the message or the answer, if the entry contains them (scatter to CQE)."""
    vendor: int = field(default=0, compare=False)
    """Value of vendor_err_synd in an error."""
    hw: tuple[int, int] = field(default=(0, 0), compare=False)
    """Values of hw_synd_type and hw_err_synd in an error."""


@dataclass
class SignatureError:
    """SIG_ERR entry: ``found`` is the value in the stream, ``computed`` the correct one."""

    opcode: CqeOpcode
    qpn: int
    mkey: int
    syndrome: int
    domain: int
    offset: int
    found: int
    computed: int


Found = Completion | SignatureError


class CompletionQueue:
    """CQ of the driver's; ``ci`` is its consumer index."""

    def __init__(self, node: Endpoint, log_size: int = 8, cqe_sz: int = 0, **context: Any) -> None:
        """Create a CQ of ``1 << log_size`` entries, of 64 bytes or with ``cqe_sz`` 1 or 2 of 128.

        ``context`` are fields of cqc.
        """
        self.node, self.log_size, self.cqe_sz = node, log_size, cqe_sz
        self.cqe_size = (64, 128, 128)[cqe_sz]
        self.ci = self.arm_sn = 0
        # An entry of 128 bytes takes the space of two.
        wide = self.cqe_size // CQE_BYTES - 1
        fields = node.driver.cq_fields(node.eqn, log_size=log_size + wide, cqe_sz=cqe_sz, **context)
        fields["cq_context"]["log_cq_size"] = log_size
        self.pages, self.record = unpack64(fields["extra"]), fields["cq_context"]["dbr_addr"]
        self.cqn: int = node.driver.must(Op.CREATE_CQ, **fields).cqn
        node.completion_events.pop(self.cqn, None)

    def entry(self, index: int) -> bytes:
        """Return the bytes of an entry; of a 128-byte one, the second half is the CQE."""
        at = self._at(index)
        return self.node.memory.read(self.pages[at // PAGE] + at % PAGE, CQE_BYTES)

    def _at(self, index: int) -> int:
        return (index & (1 << self.log_size) - 1) * self.cqe_size + self.cqe_size - CQE_BYTES

    def _front(self, index: int) -> bytes:
        """Return the first half of a 128-byte entry; empty for an entry of 64 bytes."""
        if self.cqe_size == CQE_BYTES:
            return b""
        at = self._at(index) - CQE_BYTES
        return self.node.memory.read(self.pages[at // PAGE] + at % PAGE, CQE_BYTES)

    def peek(self) -> bytes | None:
        """Return the bytes of the next entry; None while the device owns it. No index advances."""
        raw = self.entry(self.ci)
        opcode, owner = raw[63] >> 4, raw[63] & 1
        if opcode == CqeOpcode.INVALID or owner != self.ci >> self.log_size & 1:
            return None
        return raw

    def poll(self, *, update_record: bool = True) -> Found | None:
        """Return the next completion, or None without one, and advance the consumer index.

        The doorbell record is written unless ``update_record`` is False.
        """
        raw = self.peek()
        if raw is None:
            return None
        self.ci += 1
        if update_record:
            self.write_record()
        return completion_of(raw, self._front(self.ci - 1))

    def write_record(self) -> None:
        """Write the consumer index into the doorbell record."""
        self.node.memory.write(self.record, (self.ci & 0xFFFFFF).to_bytes(4, "big"))

    def drain(self) -> list[Found]:
        """Return all pending completions, also errors, and write the doorbell record."""
        completions = []
        while completion := self.poll():
            completions.append(completion)
        return completions

    def arm(self, *, solicited: bool = False) -> None:
        """Arm the CQ for one event, by record and doorbell, and run the device.

        With ``solicited``, only a solicited completion or an error raises the event (mlx5_cq_arm).
        """
        word = (self.arm_sn & 3) << 28 | (SOLICITED_ONLY if solicited else 0) | self.ci & 0xFFFFFF
        self.node.memory.write(self.record + 4, word.to_bytes(4, "big"))
        self.node.driver.bar.write(
            self.node.driver.uar * self.node.driver.uar_bytes + 0x20,
            word.to_bytes(4, "big") + self.cqn.to_bytes(4, "big"),
        )
        self.node.driver.bar.settle()

    def events(self) -> int:
        """Return the number of the EQ's events about this queue since the last call.

        Events about other queues wait for these queues' calls. The arm sequence number advances by
        the result. Raises DriverError for an event of another type.
        """
        waiting = self.node.completion_events
        for entry in self.node.driver.eqs[self.node.eqn].drain():
            expect(entry.type == EventType.COMP, f"event {entry.type} on a completion EQ")
            waiting[eqe_comp.view(entry.data).cqn] += 1
        count = waiting.pop(self.cqn, 0)
        self.arm_sn += count
        return count

    def resize(self, log_size: int) -> Answer:
        """Run MODIFY_CQ with another buffer, and return the answer, refused or not.

        On success, unread entries are copied (hw/cq.c: mlx5_ib_resize_cq). Raises DriverError
        unless the old buffer ends with a RESIZE CQE.
        """
        pages = self.node.memory.pages(self.cqe_size << log_size)
        for page in pages:
            self.node.memory.write(page, (bytes(63) + b"\xf1") * 64)
        answer = self.node.driver.command(
            Op.MODIFY_CQ, op_mod=RESIZE, cqn=self.cqn,
            modify_field_select_resize_field_select=RESIZE_FIELDS,
            cq_context={"log_cq_size": log_size, "cqe_sz": self.cqe_sz},
            extra=pack64(pages),
        )  # fmt: skip
        if not answer.status:
            self._copy_unread(pages, log_size)
        return answer

    def _copy_unread(self, pages: list[int], log_size: int) -> None:
        """Copy the unread entries before the RESIZE CQE to the new buffer, and use that buffer.

        Raises DriverError if the device owns an entry before the RESIZE CQE.
        """
        unread: list[bytes] = []
        while True:
            raw = self.entry(self.ci + len(unread))
            is_ours = raw[63] & 1 == (self.ci + len(unread)) >> self.log_size & 1
            expect(is_ours, "the old buffer does not end with a RESIZE CQE")
            if raw[63] >> 4 == CqeOpcode.RESIZE_CQ:
                break
            unread.append(raw)
        # The RESIZE CQE takes an index, so each entry moves by one.
        self.ci += 1
        self.pages, self.log_size = pages, log_size
        for index, raw in enumerate(unread, self.ci):
            at = self._at(index)
            owned = raw[:63] + bytes([raw[63] & 0xFE | index >> log_size & 1])
            self.node.memory.write(pages[at // PAGE] + at % PAGE, owned)


def _scattered(raw: bytes, front: bytes) -> bytes | None:
    """Return the 32 or 64 bytes scattered to an entry, by its format; None without any."""
    if raw[63] & SCATTER_32:
        return raw[:SCATTER_32_BYTES]
    return front if raw[63] & SCATTER_64 else None


def completion_of(raw: bytes, front: bytes = b"") -> Found:
    """Return the completion of a 64-byte entry: a Completion, or SignatureError for SIG_ERR.

    ``front`` is the first half of a 128-byte entry. Raises ValueError for an unknown opcode.
    """
    opcode = CqeOpcode(raw[63] >> 4)
    if opcode in ERRORS:
        error = err_cqe.view(raw)
        word = error.s_wqe_opcode_qpn
        return Completion(
            opcode, word & 0xFFFFFF, error.wqe_counter, wqe_opcode=word >> 24,
            syndrome=error.syndrome, srqn=error.srqn, vendor=error.vendor_err_synd,
            hw=(error.hw_synd_type >> 4, error.hw_err_synd),
        )  # fmt: skip
    if opcode == CqeOpcode.SIG_ERR:
        wrong = sig_err_cqe.view(raw)
        return SignatureError(
            opcode, wrong.qpn, wrong.mkey, wrong.syndrome, wrong.domain, wrong.err_offset,
            wrong.expected_trans_sig << 32 | wrong.expected_reftag,
            wrong.actual_trans_sig << 32 | wrong.actual_reftag,
        )  # fmt: skip
    scattered = _scattered(raw, front)
    if raw[63] & SCATTER_32:
        raw = bytes(SCATTER_32_BYTES) + raw[SCATTER_32_BYTES:]
    (
        slid, flags_rqpn, hds_ip_ext, l4_l3_hdr_type, vlan_info, srqn, immediate, byte_cnt,
        timestamp, word, wqe_counter,
    ) = _read_cqe(raw)  # fmt: skip
    return Completion(
        opcode, word & 0xFFFFFF, wqe_counter, byte_cnt, word >> 24,
        immediate=immediate, srqn=srqn, slid=slid, flags_rqpn=flags_rqpn,
        solicited=raw[63] & 2 != 0, timestamp=timestamp,
        vlan=vlan_info if l4_l3_hdr_type & 1 else None, hds_ip_ext=hds_ip_ext,
        scattered=None if scattered is None else scattered[:byte_cnt],
    )  # fmt: skip
