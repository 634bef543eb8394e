"""Hostile guests: commands, queues and resets that cause much work."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator
from io import StringIO
from typing import Any

from rig import MODEL, MappedMemory

from attacks.watch import Watch, WatchedBar, pattern
from emu.device.cmdif.registry import COMMANDS
from emu.device.function.function import Function
from emu.device.models.model import Model
from emu.device.port.ib.wire import IbWire
from emu.device.state.hca import Hca, HcaOptions
from emu.device.trace.event import TraceEvent
from emu.device.trace.recorder import LineSink, Recorder
from emu.driver.command.driver import Driver
from emu.driver.command.words import pack64
from emu.driver.verbs.connect import connect
from emu.driver.verbs.node import Node
from emu.driver.world.clock import HandClock
from emu.driver.world.interrupts import IrqList
from emu.driver.world.memory import Memory
from emu.server.net.ib.local import LocalFabric
from firmware_cmds import TABLE
from layouts.cmd import CMD_TYPE_PCIE, cmd_layout
from layouts.enums.cmd import Op, Status
from layouts.enums.hca import PageOp
from layouts.enums.mkey import AccessMode
from layouts.enums.wqe import Opcode

MIB = 1 << 20
MILLION = 1 << 20
KEYS = 100_000
SLOTS = 8


class Guest:
    """Function whose rounds are watched, and a driver that can send it any command."""

    def __init__(
        self,
        watch: Watch,
        ram: int = 96 * MIB,
        *,
        model: Model = MODEL,
        wire: IbWire[Hca] | None = None,
        is_traced: bool = False,
    ) -> None:
        """Create the function; ``wire`` is its port's wire, by default an empty subnet."""
        self.watch = watch
        self.clock = HandClock()
        self.memory: Memory = MappedMemory(ram)
        irqs, wire = IrqList(), wire or LocalFabric(self.clock)
        tracer = Recorder(LineSink(StringIO(), TraceEvent.to_json), self.clock)
        self.function = Function(
            model, HcaOptions(guid=1), TABLE, self.memory, irqs, self.clock, wire,
            tracer if is_traced else None,
        )  # fmt: skip
        watch.knows(self.function)
        self.driver = Driver(WatchedBar(watch, [self.function]), self.memory, irqs).probe()
        self.node = Node(self.function, self.driver)

    def submit(self, op: Op, extra: bytes = b"", out_extra: int = 0, **fields: Any) -> Any:
        """Fill slot 0; return the argument for ``collect``."""
        entry = COMMANDS[op]
        view = entry.layout_in.new(opcode=op, **fields)
        outlen = entry.layout_out.size + out_extra
        blocks = self.driver.submit(bytes(view.buf) + extra, outlen)
        return blocks, outlen, entry.layout_out

    def copy_slot(self, count: int) -> None:
        """Copy the command from slot 0 to the slots after it."""
        entry = self.memory.read(self.driver.queue, cmd_layout.size)
        assert cmd_layout.view(entry).type == CMD_TYPE_PCIE
        for slot in range(1, count):
            self.memory.write(self.driver.queue + slot * cmd_layout.size, entry)

    def ring(self, slots: int = 1) -> None:
        """Ring the doorbell and run the device until it is done."""
        self.driver.ring((1 << slots) - 1)

    def collect(self, sent: Any) -> Any:
        """Return the answer to a command; RuntimeError unless its status is OK."""
        blocks, outlen, layout = sent
        _, raw = self.driver.collect(blocks, outlen)
        answer = layout.view(bytearray(raw))
        if answer.status != Status.OK:
            raise RuntimeError(f"refused: {Status(answer.status).name}")
        return answer

    def scattered(self, count: int, rights: int = 0) -> bytes:
        """Return a list of pages without contiguous neighbours: two pages that alternate."""
        first = self.driver.queue | rights
        pages = array("Q", (first, first + 2 * 4096) * (count // 2))
        pages.byteswap()
        return pages.tobytes()

    def large_umem(self) -> dict[str, Any]:
        """Create a UMEM of 8 million entries: one page again and again.

        Return the fields of CREATE_MKEY that name it.
        """
        large = self.memory.alloc(2 * MIB, 2 * MIB)
        listed = pack64([large | 3]) * (16 << 10)
        umem = {"num_of_mtt": len(listed) // 8, "log_page_size": 9}
        sent = self.submit(Op.CREATE_UMEM, listed, umem=umem)
        self.ring()
        return {"mkey_umem_valid": 1, "mkey_umem_id": self.collect(sent).umem_id}

    def connect(self) -> None:
        """Make two queue pairs that are each other's peers, to use a key with later."""
        self._qp = self.node.queue_pair()
        connect(self._qp, self.node.queue_pair())

    def use(self, key: int) -> None:
        """Write from a key's second page to its first; RuntimeError when that fails."""
        self._qp.write((key, 0), (64, key, 4096))
        self.node.settle()
        if self._qp.cq.drain()[0].syndrome:
            raise RuntimeError("the key does not work")


def key_fields(node: Node, entries: int, **context: Any) -> dict[str, Any]:
    """Return the CREATE_MKEY fields for a key of ``entries`` pages of 4 KiB."""
    entry = {
        "pd": node.pdn, "qpn": 0xFFFFFF, "access_mode_1_0": AccessMode.MTT, "lr": 1, "lw": 1,
        "rr": 1, "rw": 1, "log_page_size": 12, "len": entries << 12,
        "translations_octword_size": entries // 2,
    }  # fmt: skip
    return {"memory_key_mkey_entry": entry | context}


def large_key(node: Node) -> int:
    """Create a key over 1 GiB: the same large page repeated."""
    page = node.memory.alloc(32 * MIB, 2 * MIB)
    context = {"translations_octword_size": 16, "len": 1 << 30, "log_page_size": 25}
    answer = node.driver.must(
        Op.CREATE_MKEY,
        **key_fields(node, 0, **context),
        translations_octword_actual_size=16,
        extra=pack64([page]) * 32,
    )
    return int(answer.mkey_index) << 8


Attack = Callable[[Guest], Iterator[None]]


def pattern_also_traced(title: str, traced: str, ram: int = 96 * MIB) -> Callable[[Attack], Attack]:
    """Add a pattern of a guest with these bytes of memory, and another with a traced guest."""

    def register(attack: Attack) -> Attack:
        pattern(title)(lambda watch: attack(Guest(watch, ram)))
        pattern(traced)(lambda watch: attack(Guest(watch, ram, is_traced=True)))
        return attack

    return register


@pattern("CREATE_UMEM of a million pages, in eight slots")
def umems(watch: Watch) -> Iterator[None]:
    guest = Guest(watch)
    pages = guest.scattered(MILLION - 64, rights=3)
    guest.submit(Op.CREATE_UMEM, pages, umem={"num_of_mtt": len(pages) // 8})
    guest.copy_slot(SLOTS)
    yield
    guest.ring(SLOTS)


@pattern_also_traced(
    "CREATE_MKEY with a million pages, and its first use",
    "CREATE_MKEY with a million pages, traced, and its first use",
)
def long_key(guest: Guest) -> Iterator[None]:
    guest.connect()
    count = MILLION - 64
    fields = key_fields(guest.node, count) | {"translations_octword_actual_size": count // 2}
    sent = guest.submit(Op.CREATE_MKEY, guest.scattered(count), **fields)
    yield
    guest.ring()
    guest.use(guest.collect(sent).mkey_index << 8)


@pattern("CREATE_MKEY over user memory: 8 million entries, and its first use")
def long_key_over_umem(watch: Watch) -> Iterator[None]:
    guest = Guest(watch)
    guest.connect()
    fields = guest.large_umem()
    sent = guest.submit(Op.CREATE_MKEY, **fields, **key_fields(guest.node, 8 * MILLION))
    yield
    guest.ring()
    guest.use(guest.collect(sent).mkey_index << 8)


@pattern_also_traced(
    "MANAGE_PAGES: 16,000 pages given, and taken back",
    "MANAGE_PAGES: 16,000 pages given and taken back, traced",
    200 * MIB,
)
def firmware_pages(guest: Guest) -> Iterator[None]:
    count = 16_000
    first = guest.memory.alloc(4096)
    pages = pack64([first + 8192 * number for number in range(count)])
    give = guest.submit(Op.MANAGE_PAGES, pages, op_mod=PageOp.GIVE, input_num_entries=count)
    yield
    guest.ring()
    guest.collect(give)
    take = guest.submit(
        Op.MANAGE_PAGES, out_extra=8 * count, op_mod=PageOp.TAKE, input_num_entries=count
    )
    guest.ring()
    guest.collect(take)


@pattern_also_traced(
    "MODIFY_CQ to 4 million entries, and QUERY_CQ of its pages",
    "MODIFY_CQ to 4 million entries and QUERY_CQ of its pages, traced",
)
def resized(guest: Guest) -> Iterator[None]:
    fields = guest.driver.cq_fields(guest.node.eqn)
    cqn = guest.driver.must(Op.CREATE_CQ, **fields).cqn
    context = fields["cq_context"] | {"log_cq_size": 22}
    resize = {"cqn": cqn, "modify_field_select_resize_field_select": 7, "op_mod": 1}
    sent = guest.submit(Op.MODIFY_CQ, guest.scattered(1 << 16), cq_context=context, **resize)
    yield
    guest.ring()
    guest.collect(sent)
    sent = guest.submit(Op.QUERY_CQ, out_extra=8 << 16, cqn=cqn)
    guest.ring()
    guest.collect(sent)


@pattern_also_traced(
    "mailboxes of 8 MiB in and out for a command that needs none",
    "mailboxes of 8 MiB in and out, traced",
)
def mailboxes(guest: Guest) -> Iterator[None]:
    guest.submit(Op.ALLOC_PD, bytes(8 * MIB - 64), out_extra=8 * MIB - 64)
    guest.copy_slot(SLOTS)
    yield
    guest.ring(SLOTS)


def _keys(guest: Guest) -> None:
    """Create KEYS keys by one command, renewing only its ownership bit."""
    context = {"pd": guest.node.pdn, "length64": 1, "lr": 1, "lw": 1, "qpn": 0xFFFFFF}
    sent = guest.submit(Op.CREATE_MKEY, memory_key_mkey_entry=context)
    entry = guest.memory.read(guest.driver.queue, cmd_layout.size)
    before = len(guest.function.hca.mkeys)
    for _ in range(KEYS):
        guest.memory.write(guest.driver.queue, entry)
        guest.ring()
    guest.collect(sent)
    if len(guest.function.hca.mkeys) != before + KEYS:
        raise RuntimeError("keys have been refused")


@pattern("TEARDOWN_HCA with a hundred thousand keys left behind")
def teardown(watch: Watch) -> Iterator[None]:
    guest = Guest(watch)
    _keys(guest)
    sent = guest.submit(Op.TEARDOWN_HCA)
    yield
    guest.ring()
    guest.collect(sent)


@pattern("function-level reset with a hundred thousand keys")
def reset(watch: Watch) -> Iterator[None]:
    guest = Guest(watch)
    _keys(guest)
    yield
    watch.reset(guest.function)


@pattern("function-level resets, after the first of which all that is left is looked at")
def look_at_all(watch: Watch) -> Iterator[None]:
    """Run Python's collector, as it runs once few objects are left."""
    guest = Guest(watch)
    _keys(guest)
    yield
    for _ in range(500):
        watch.reset(guest.function)


@pattern("DESTROY_UCTX beside a hundred thousand keys of others")
def user_context(watch: Watch) -> Iterator[None]:
    guest = Guest(watch)
    _keys(guest)
    uid = guest.driver.must(Op.CREATE_UCTX).uid
    sent = guest.submit(Op.DESTROY_UCTX, uid=uid)
    yield
    guest.ring()
    guest.collect(sent)


@pattern("2ERR_QP with 32,768 sends and as many receives posted")
def flush(watch: Watch) -> Iterator[None]:
    guest = Guest(watch, 256 * MIB)
    qp = guest.node.queue_pair(log_sq_size=15, log_rq_size=15, log_rq_stride=0, log_cq_size=17)
    connect(qp, guest.node.queue_pair())
    memory = guest.memory
    memory.write(qp.record, ((1 << 15) - 1).to_bytes(4, "big") * 2)
    yield
    qp.to_error()
    guest.node.settle()
    for _ in range(100):
        watch.round(lambda: guest.clock.advance(20_000_000))


@pattern("eight writes of 1 GiB inside the process")
def large_writes(watch: Watch) -> Iterator[None]:
    guest = Guest(watch, 128 * MIB)
    source, target = large_key(guest.node), large_key(guest.node)
    pairs = []
    for _ in range(8):
        one, two = guest.node.queue_pair(), guest.node.queue_pair()
        connect(one, two)
        pairs.append(one)
    yield
    for one in pairs:
        one.write((target, 0), (1 << 30, source, 0))
    guest.node.settle()


@pattern("doorbells of 512 queue pairs with sixteen requests each")
def many_doorbells(watch: Watch) -> Iterator[None]:
    guest = Guest(watch, 256 * MIB)
    qps = [guest.node.queue_pair() for _ in range(512)]
    for one, two in zip(qps[::2], qps[1::2]):
        connect(one, two)
        for _ in range(16):
            one.post(Opcode.NOP, ring=False)
    yield
    for qp in qps:
        qp.ring()
    guest.node.settle()


@pattern("three hundred thousand keys made, one by one")
def many_keys(watch: Watch) -> Iterator[None]:
    guest = Guest(watch)
    yield
    for _ in range(3):
        _keys(guest)
