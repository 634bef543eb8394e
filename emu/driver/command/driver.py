"""A small driver: what mlx5_core does to bring a function up and talk to it, without a kernel.

It sees the device through BAR accesses and guest memory only, so the same driver runs against a
``Function`` in process and against one behind a vfio-user socket.
"""

from __future__ import annotations

from emu.device.cmdif.registry import COMMANDS
from emu.driver.command.answer import Answer, CommandFailedError
from emu.driver.command.events import EventQueue
from emu.driver.command.words import pack64, unpack64
from layouts import caps, cmd, reg
from layouts.enums import CapType, EventType, Op, RegId, Status
from layouts.eqe import EQE_BYTES


class Driver:
    """``bar`` has read(offset, length), write(offset, data) and settle()."""

    def __init__(self, bar, memory, irqs=None):
        self.bar = bar
        self.memory = memory
        self.irqs = irqs
        self.queue = memory.alloc(4096)
        self.eqs = {}
        self.token = 0

    # -- registers

    def read32(self, offset):
        return int.from_bytes(self.bar.read(offset, 4), "big")

    def write32(self, offset, value):
        self.bar.write(offset, value.to_bytes(4, "big"))

    # -- commands

    def attach(self):
        """Tell the device where the command queue is."""
        assert self.read32(0x004) >> 16 == 5
        assert not self.read32(0x1FC) >> 31
        self.write32(0x010, self.queue >> 32)
        self.write32(0x014, self.queue & 0xFFFFFFFF)

    def mailboxes(self, data, length, token):
        """A chain of blocks for ``length`` bytes; returns the first block's address and all."""
        count = -(-max(length - cmd.INLINE_BYTES, 0) // cmd.MAILBOX_DATA_BYTES)
        blocks = [self.memory.alloc(1024, 1024) for _ in range(count)]
        for number, address in enumerate(blocks):
            following = blocks[number + 1] if number + 1 < count else 0
            block = cmd.cmd_prot_block.new(next=following, block_num=number, token=token)
            part = data[16 + 512 * number :][:512]
            block.data = bytes(part).ljust(512, b"\0")
            self.memory.write(address, block.buf)
        return (blocks[0] if blocks else 0), blocks

    def submit(self, data, outlen, slot=0):
        """Fill a slot without ringing; returns the output's blocks."""
        self.token = self.token % 255 + 1
        in_ptr, in_blocks = self.mailboxes(data, len(data), self.token)
        out_ptr, out_blocks = self.mailboxes(b"", outlen, self.token)
        entry = cmd.cmd_layout.new(
            type=cmd.CMD_TYPE_PCIE, inlen=len(data), in_ptr=in_ptr, outlen=outlen,
            out_ptr=out_ptr, token=self.token, status_own=1,
        )  # fmt: skip
        setattr(entry, "in", bytes(data[:16]).ljust(16, b"\0"))
        self.memory.write(self.queue + 64 * slot, entry.buf)
        return in_blocks, out_blocks

    def ring(self, slots):
        self.write32(0x018, slots)
        self.bar.settle()

    def collect(self, blocks, outlen, slot=0):
        """Read a finished slot. Fails when the device still owns it."""
        in_blocks, out_blocks = blocks
        entry = cmd.cmd_layout.view(self.memory.read(self.queue + 64 * slot, 64))
        assert not entry.status_own & 1, f"slot {slot} is still the device's"
        raw = entry.out + b"".join(self.memory.read(address, 512) for address in out_blocks)
        for address in (*in_blocks, *out_blocks):
            self.memory.free(address, 1024, 1024)
        return entry.status_own >> 1, raw[:outlen]

    def execute(self, data, outlen, slot=0):
        """One command, polled: (delivery status, output)."""
        blocks = self.submit(data, outlen, slot)
        self.ring(1 << slot)
        return self.collect(blocks, outlen, slot)

    def command(self, op, *, op_mod=0, extra=b"", out_extra=0, _uid=None, **fields):
        """Run a command by its layout; ``extra`` follows the fixed part of the input.

        ``_uid`` goes into the header also where the layout leaves its place reserved.
        """
        entry = COMMANDS[op]
        view = entry.layout_in.new(opcode=op, op_mod=op_mod, **fields)
        if _uid is not None:
            view.buf[2:4] = _uid.to_bytes(2, "big")
        data = bytes(view.buf) + bytes(extra)
        delivery, raw = self.execute(data, entry.layout_out.size + out_extra)
        return Answer(delivery, raw, entry.layout_out.view(bytearray(raw)))

    def must(self, op, **fields):
        """Run a command that has to succeed."""
        answer = self.command(op, **fields)
        if answer.delivery or answer.status:
            raise CommandFailedError(f"{op.name}: delivery {answer.delivery}, {answer.status!r}")
        return answer

    # -- bring-up, in the order of core/main.c

    def probe(self, *, is_vf=False):
        """Everything up to INIT_HCA and the first EQs."""
        self.attach()
        self.must(Op.ENABLE_HCA)
        self.must(Op.QUERY_ISSI)
        self.must(Op.SET_ISSI, current_issi=1)
        self.give_pages(self.must(Op.QUERY_PAGES, op_mod=1).num_pages)
        if not is_vf:
            answer = self.write_register(RegId.HOST_ENDIANNESS, b"\x80" + bytes(15))
            assert answer.status == Status.OK
        page = bytearray(self.must(Op.QUERY_HCA_CAP, op_mod=1).capability)
        self.caps = caps.cmd_hca_cap.view(page)
        self.caps.cmdif_checksum = 0
        self.caps.pkey_table_size = 0
        self.must(Op.SET_HCA_CAP, op_mod=0, capability=bytes(page))
        if self.caps.pg:
            self.choose_paging()
        self.give_pages(self.must(Op.QUERY_PAGES, op_mod=2).num_pages)
        self.must(Op.INIT_HCA)
        self.must(Op.QUERY_ADAPTER)
        self.uar = self.must(Op.ALLOC_UAR).uar
        return self

    def choose_paging(self):
        """The memory scheme where there is one, else all that has to be asked for."""
        group = CapType.ODP << 1
        most = bytearray(self.must(Op.QUERY_HCA_CAP, op_mod=group).capability)
        chosen = bytearray(self.must(Op.QUERY_HCA_CAP, op_mod=group | 1).capability)
        if caps.odp_cap.view(most).mem_page_fault:
            caps.odp_cap.view(chosen).mem_page_fault = 1
        else:
            chosen[:] = most
        self.must(Op.SET_HCA_CAP, op_mod=group, capability=bytes(chosen))

    def remove(self):
        """The reverse, down to DISABLE_HCA."""
        for eqn in reversed(list(self.eqs)):
            self.destroy_eq(eqn)
        self.must(Op.DEALLOC_UAR, uar=self.uar)
        self.must(Op.TEARDOWN_HCA)
        self.take_pages()
        self.must(Op.DISABLE_HCA)

    def give_pages(self, count):
        if count:
            addresses = [self.memory.alloc(4096) for _ in range(count)]
            self.must(Op.MANAGE_PAGES, op_mod=1, input_num_entries=count, extra=pack64(addresses))

    def take_pages(self, at_once=64):
        taken = 0
        while True:
            answer = self.must(
                Op.MANAGE_PAGES, op_mod=2, input_num_entries=at_once, out_extra=8 * at_once
            )
            if not answer.output_num_entries:
                return taken
            taken += answer.output_num_entries

    def write_register(self, register, data, op_mod=0):
        return self.command(
            Op.ACCESS_REG, op_mod=op_mod, register_id=register, extra=data, out_extra=len(data)
        )

    def read_register(self, register, layout, **fields):
        view = layout.new(**fields)
        answer = self.write_register(register, bytes(view.buf), op_mod=1)
        assert answer.status == Status.OK
        return layout.view(answer.raw[reg.access_register_out.size :])

    # -- objects

    def eq_fields(self, *, log_size=4, events=(), vector=0):
        """What CREATE_EQ takes, with a buffer whose entries are the device's."""
        pages = self.memory.pages(EQE_BYTES << log_size)
        for page in pages:
            self.memory.write(page, (bytes(63) + b"\x01") * 64)
        mask = sum(1 << event for event in events)
        return {
            "eq_context_entry": {"log_eq_size": log_size, "uar_page": self.uar, "intr": vector},
            "event_bitmask": [mask & (1 << 64) - 1, 0, 0, 0],
            "extra": pack64(pages),
        }

    def create_eq(self, *, log_size=4, events=(), vector=0):
        """An EQ for the given event types; returns its number."""
        fields = self.eq_fields(log_size=log_size, events=events, vector=vector)
        eqn = self.must(Op.CREATE_EQ, **fields).eq_number
        self.eqs[eqn] = EventQueue(self, eqn, unpack64(fields["extra"]), log_size)
        return eqn

    def destroy_eq(self, eqn):
        self.must(Op.DESTROY_EQ, eq_number=eqn)
        del self.eqs[eqn]

    def use_events(self, vector=0):
        """A command EQ, armed, as mlx5_cmd_use_events wants it."""
        eqn = self.create_eq(events=[EventType.CMD], vector=vector)
        self.eqs[eqn].arm()
        return self.eqs[eqn]

    def alloc_pd(self):
        return self.must(Op.ALLOC_PD).pd

    def create_mkey(self, pd, **context):
        context = {"pd": pd, "length64": 1, "lr": 1, "lw": 1, "qpn": 0xFFFFFF} | context
        return self.must(Op.CREATE_MKEY, memory_key_mkey_entry=context).mkey_index

    def cq_fields(self, eqn, *, log_size=4, **context):
        """What CREATE_CQ takes, with a buffer and a doorbell record of its own."""
        fields = {
            "log_cq_size": log_size, "c_eqn_or_apu_element": eqn, "uar_page": self.uar,
            "dbr_addr": self.memory.alloc(64, 64),
        } | context  # fmt: skip
        pages = self.memory.pages(64 << log_size)
        for page in pages:
            self.memory.write(page, (bytes(63) + b"\xf1") * 64)  # invalid, and the device's
        return {"cq_context": fields, "extra": pack64(pages)}

    def create_cq(self, eqn, **context):
        return self.must(Op.CREATE_CQ, **self.cq_fields(eqn, **context)).cqn

    def qp_fields(self, pdn, cqn, *, st=0, log_sq_size=2, log_rq_size=2, **context):
        """What CREATE_QP takes, with buffers and a doorbell record of its own."""
        fields = {
            "st": st, "pd": pdn, "cqn_snd": cqn, "cqn_rcv": cqn, "uar_page": self.uar,
            "log_sq_size": log_sq_size, "log_rq_size": log_rq_size,
            "dbr_addr": self.memory.alloc(64, 64),
        } | context  # fmt: skip
        size = (64 << log_sq_size) + (16 << log_rq_size + fields.get("log_rq_stride", 0))
        return {"qpc": fields, "extra": pack64(self.memory.pages(size))}

    def create_qp(self, pdn, cqn, **context):
        return self.must(Op.CREATE_QP, **self.qp_fields(pdn, cqn, **context)).qpn

    def rmp_fields(self, pdn, *, log_wq_sz=2, log_wq_stride=5, basic_cyclic_rcv_wqe=0, **context):
        """What CREATE_RMP takes; the stride is log2 of bytes."""
        wq = {
            "pd": pdn, "log_wq_sz": log_wq_sz, "log_wq_stride": log_wq_stride,
            "dbr_addr": self.memory.alloc(64, 64),
        } | context  # fmt: skip
        pages = pack64(self.memory.pages(1 << log_wq_sz + log_wq_stride))
        return {"ctx": {"wq": wq, "basic_cyclic_rcv_wqe": basic_cyclic_rcv_wqe}, "extra": pages}

    def xrc_srq_fields(self, pdn, xrcd, cqn, /, *, log_size=2, log_rq_stride=1, **context):
        """What CREATE_XRC_SRQ takes; the stride is ``16 << log_rq_stride`` bytes."""
        record = self.memory.alloc(64, 64)
        fields = {
            "pd": pdn, "xrcd": xrcd, "cqn": cqn, "log_xrc_srq_size": log_size,
            "log_rq_stride": log_rq_stride,
            "db_record_addr_h": record >> 32, "db_record_addr_l": (record & 0xFFFFFFFF) >> 2,
        } | context  # fmt: skip
        pages = pack64(self.memory.pages(16 << log_size + log_rq_stride))
        return {"xrc_srq_context_entry": fields, "extra": pages}

    def srq_fields(self, pdn, *, log_size=2, log_rq_stride=1, **context):
        """What CREATE_SRQ takes: the form of ISSI 0."""
        fields = {
            "pd": pdn, "log_srq_size": log_size, "log_rq_stride": log_rq_stride,
            "dbr_addr": self.memory.alloc(64, 64),
        } | context  # fmt: skip
        pages = pack64(self.memory.pages(16 << log_size + log_rq_stride))
        return {"srq_context_entry": fields, "extra": pages}

    def create_rmp(self, pdn, **context):
        return self.must(Op.CREATE_RMP, **self.rmp_fields(pdn, **context)).rmpn

    def create_xrc_srq(self, pdn, xrcd, cqn, /, **context):
        fields = self.xrc_srq_fields(pdn, xrcd, cqn, **context)
        return self.must(Op.CREATE_XRC_SRQ, **fields).xrc_srqn

    def create_srq(self, pdn, **context):
        return self.must(Op.CREATE_SRQ, **self.srq_fields(pdn, **context)).srqn
