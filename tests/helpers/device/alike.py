"""One program between two ends that are connected in any way, and all that it leaves behind.

A ``Setting`` is a way to connect two functions. What a program sees there is an ``Outcome``:
completions, events, states of its queue pairs, memory, and counters.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from types import SimpleNamespace

from emu.device.faults.link import PlannedLink
from emu.device.function.function import Function
from emu.device.models import MODELS
from emu.device.state.hca import HcaOptions
from emu.driver.command.answer import DriverCommandError
from emu.driver.nodes.cable import DueTimers
from emu.driver.nodes.packet_wire import PacketWire
from emu.driver.nodes.roce import RoceNode, functions_on, on_a_cable
from emu.driver.nodes.two_nodes import GUID, brought_up
from emu.driver.verbs.channels import QKEY
from emu.driver.verbs.dynamic import Initiator, Target
from emu.driver.verbs.node import Node
from emu.driver.verbs.shared_queue import SharedQueue
from emu.driver.world.clock import HandClock
from emu.driver.world.interrupts import IrqList
from emu.driver.world.memory import Memory
from emu.server.net.eth.function_port import FunctionPort
from emu.server.net.eth.switch import SegmentSwitch
from emu.server.net.ib.local import LocalFabric
from emu.server.service.links import Cabling, Links
from firmware_cmds import TABLE
from layouts.enums.cmd import Op
from layouts.enums.qp import QpType, RqType

PEER, NOBODY = "the peer's GID", "a GID that nobody has"
MS = 1_000_000
MAX_MS = 400
DELAY = "1us"
FULL, LIMITED, EMPTY = 1, 2, 9
"""Indices of P_Keys: full and limited member of other partitions, nothing. Index 0 has 0xFFFF."""
PKEYS = (0x8001, 0x0002)
SIZE = 16 << 10
ROOM = 4 * SIZE
TEXT = bytes(range(251)) * (ROOM // 251 + 1)
TEXT = TEXT[:ROOM]
TIMEOUT = {"ack_timeout": 8, "retry_count": 1, "rnr_retry": 1}


class Setting:
    """Two ends and the time that they live in; both may be the same function."""

    def __init__(self, name, left, right, clock):
        self.name, self.left, self.right, self.clock = name, left, right, clock
        self.regions = {}

    @property
    def nodes(self):
        return list(dict.fromkeys((self.left, self.right)))

    @property
    def is_roce(self):
        return isinstance(self.left, RoceNode)

    def region(self, node, what):
        """Memory that is registered once, for all programs."""
        if (node, what) not in self.regions:
            self.regions[node, what] = node.region(ROOM)
        return self.regions[node, what]

    def settle(self):
        """Everything that happens without a timeout, and within a link's delay."""
        for _ in range(64):
            self.left.settle()
            before = self.clock.waiting()
            self.clock.advance(MS // 500)
            if self.clock.waiting() == before:
                break
        self.left.settle()

    def wait(self, is_over):
        """Let time pass until a program is over."""
        self.settle()
        begin = self.clock.ns
        while not is_over() and self.clock.ns - begin < MAX_MS * MS:
            self.clock.advance(MS)
            self.settle()


class EveryPacket:
    """A watcher that has messages sent as packets."""

    wants_messages = True

    def packet(self, *_, **__):
        """Nobody looks."""

    datagram = packet


def infiniband(name, count=2, *, as_packets=False, link=False, trains=False):
    """Functions on one fabric, or with trains of packets between them."""
    clock = HandClock()
    wire = PacketWire() if trains else LocalFabric(clock)
    if trains:
        wire.takes_trains = True
    if as_packets:
        wire.watcher = EveryPacket()
    functions = []
    for number in range(1, count + 1):
        options = HcaOptions(guid=GUID + number, lid=number, pkeys=PKEYS)
        functions.append(
            Function(MODELS["connectx6"], options, TABLE, Memory(), IrqList(), clock, wire)
        )
    nodes = brought_up(Node, functions, DueTimers(clock), *([wire] if trains else []))
    if link:
        _delay(functions, Cabling(clock, wire))
    return Setting(name, nodes[0], nodes[-1], clock)


def roce(name, count=2, *, link=False):
    """Functions on one segment."""
    clock = HandClock()
    switch = SegmentSwitch(clock)
    ports = [FunctionPort(f"function {number}", switch) for number in range(count)]
    functions = functions_on(ports, clock)
    nodes = brought_up(RoceNode, functions, DueTimers(clock))
    if link:
        _delay(functions, Cabling(clock, LocalFabric(clock), ports))
    return Setting(name, nodes[0], nodes[-1], clock)


def roce_frames(name, *, trains=False):
    """Functions of different processes; with ``trains`` these are ours and on one host."""
    clock = HandClock()
    left, right = on_a_cable(clock, takes_trains=trains)
    return Setting(name, left, right, clock)


def _delay(functions, cabling):
    links = Links(functions, cabling)
    for index in range(len(functions)):
        links.set(PlannedLink.model_validate({"delay": DELAY}), index)


@dataclass(frozen=True)
class Program:
    """What two queue pairs are given, and what the left one asks for."""

    name: str
    service: QpType = QpType.RC
    do: tuple = ("send", "write", "read")
    """Names of ``Run``'s methods, each perhaps with a size behind it."""
    left: dict = field(default_factory=dict)
    right: dict = field(default_factory=dict)
    """Attributes of the queue pairs that are not as they should be."""
    to: dict = field(default_factory=dict)
    """Fields of the address vector, of datagram services."""
    twist: str = ""
    """A method of ``Run`` that is called before the requests."""
    mtu: int = 0
    """The interface's MTU, over RoCE."""

    def of(self, service):
        return replace(self, service=service, name=f"{service.name} {self.name}")

    def __str__(self):
        return self.name


class Run(SimpleNamespace):
    """A program in a setting."""

    def __init__(self, setting, program):
        super().__init__(setting=setting, program=program)
        self.ends = (setting.left, setting.right)
        self.rights = {}
        self.posted = []
        self.srq = self.target = None
        self.sets = [node.driver.must(Op.ALLOC_Q_COUNTER).counter_set_id for node in self.ends]
        source, target = (
            setting.region(setting.left, "source"),
            setting.region(setting.right, "target"),
        )
        source.write(TEXT)
        target.write(bytes(ROOM))
        self.source, self.remote = source, target
        self.back = setting.region(setting.left, "back")
        self.back.write(bytes(ROOM))
        self.key, self.rkey, self.va = source.key, target.key, target.va
        self.recv_room, self.srqn = SIZE + 40, None
        self.vector = {}
        self.mtus = [node.hca.eth.admin_mtu for node in setting.nodes] if program.mtu else []
        for node in setting.nodes if program.mtu else ():
            node.hca.eth.admin_mtu = program.mtu
        self.before = [self._port(node) for node in setting.nodes]
        self.sent_before = self._sent()
        for node in setting.nodes:
            node.events()
        self.qps = []
        try:
            self._open()
        except DriverCommandError:
            self.is_refused = True
            return
        self.is_refused = False
        if program.twist:
            getattr(self, program.twist)()

    # -- the two ends

    def _open(self):
        service, (left, right) = self.program.service, self.ends
        self.cqs = [left.completion_queue(), right.completion_queue()]
        if service is QpType.DCI:
            self._open_dc()
            return
        srq = None
        extra = [{}, {}]
        if service is QpType.XRC:
            domain = right.driver.must(Op.ALLOC_XRCD).xrcd
            srq = self.srq = SharedQueue(right, xrcd=domain, cq=self.cqs[1])
            self.srqn = srq.srqn
            own = left.driver.must(Op.ALLOC_XRCD).xrcd
            extra = [
                {"rq_type": RqType.ZERO_LEN_RQ, "log_rq_size": 0, "log_rq_stride": 0, "xrcd": own},
                {"srq": srq, "xrcd": domain, "no_sq": 1},
            ]
        self.qps = [
            node.queue_pair(service, cq=cq, counter_set_id=number, **more)
            for node, cq, number, more in zip(self.ends, self.cqs, self.sets, extra)
        ]
        for side, wrong in enumerate((self.program.left, self.program.right)):
            self._start(side, dict(wrong))

    def _start(self, side, wrong):
        qp, peer = self.qps[side], self.qps[1 - side]
        node, other = self.ends[side], self.ends[1 - side]
        init = {"counter_set_id": self.sets[side]}
        init |= {name: wrong.pop(name) for name in ("rre", "rwe", "rae", "q_key") if name in wrong}
        init["primary_address_path"] = {"pkey_index": wrong.pop("pkey_index", 0)}
        stop = wrong.pop("stop", "")
        if self.program.service is QpType.UD:
            qp.init(**{"q_key": QKEY, "mtu": 5, "log_msg_max": 12} | init)
            if stop != "INIT":
                qp.to_rtr(mtu=0, log_msg_max=0).to_rts(0x10)
            return
        psns = (0x10, 0xFFFFF0)
        rts = TIMEOUT | {"log_sra_max": wrong.pop("log_sra_max", 4)}
        path = node.path_to(other) | self._resolved(wrong.pop("path", {}), other)
        psn = psns[side] + wrong.pop("psn", 0)
        qp.init(**init)
        if stop == "INIT":
            return
        qpn = peer.qpn ^ wrong.pop("qpn", 0)
        qp.to_rtr(**{"qpn": qpn, "psn": psns[1 - side], "path": path, "min_rnr_nak": 1} | wrong)
        qp.to_rts(psn, **rts)
        if stop == "ERR":
            qp.to_error()

    @staticmethod
    def _resolved(fields, peer):
        """Fields of a path or of an address vector, with GIDs in the place of their names."""
        own = peer.gids[peer.index] if isinstance(peer, RoceNode) else peer.hca.port.gid(0)
        gids = {PEER: own, NOBODY: bytes.fromhex("fe80") + bytes(13) + b"\x77"}
        return {
            name: gids.get(value, value) if isinstance(value, str) else value
            for name, value in fields.items()
        }

    def _open_dc(self):
        left, right = self.ends
        wrong = dict(self.program.left)
        path = {"pkey_index": wrong.pop("pkey_index", 0)}
        self.target = Target(right, counter_set_id=self.sets[1], **self.program.right)
        self.srq = self.target.srq
        self.cqs[1] = self.target.cq
        initiator = _Initiator(left, self.target, path=path, init=wrong, **TIMEOUT)
        initiator.vector = self._resolved(self.program.to, right)
        self.qps = [initiator]
        self.cqs[0] = initiator.cq

    # -- twists: what is wrong besides attributes

    def wrong_rkey(self):
        self.rkey ^= 1

    def wrong_lkey(self):
        self.key ^= 1

    def out_of_range(self):
        self.va += ROOM

    def read_only(self):
        self.rkey = self._region(self.ends[1], "read only", rw=0, a=0).key

    def write_only(self):
        self.rkey = self._region(self.ends[1], "write only", rr=0).key

    def of_another_domain(self):
        node = self.ends[1]
        pd = node.driver.alloc_pd()
        self.rkey = node.region(ROOM, pd=pd).key

    def wrong_srqn(self):
        self.srqn ^= 1

    def short_receive(self):
        self.recv_room = 16

    def no_receive(self):
        self.recv_room = 0

    def read_only_receive(self):
        self.remote = self._region(self.ends[1], "no local write", lw=0, rw=0, a=0)

    def unknown_target(self):
        self.target.dctn ^= 1

    def drained_target(self):
        self.target.drain()

    def wrong_access_key(self):
        self.qps[0].key ^= 1

    def _region(self, node, what, **rights):
        if (node, what) not in self.setting.regions:
            self.setting.regions[node, what] = node.region(ROOM, **rights)
        return self.setting.regions[node, what]

    # -- requests

    def _recv(self):
        if self.recv_room:
            queue = self.srq or self.qps[1]
            sge = self.remote.sge(SIZE, self.recv_room)
            (queue.post if self.srq else queue.post_recv)(sge)

    def _options(self):
        return {} if self.srqn is None else {"xrc_srqn": self.srqn}

    def _sge(self, size):
        length, _, va = self.source.sge(0, size)
        return length, self.key, va

    def send(self, size=100, **options):
        self._recv()
        qp = self.qps[0]
        if self.program.service is QpType.UD:
            to = {"dqp_dct": self.qps[1].qpn, "key": QKEY << 32}
            to |= self.ends[0].vector_to(self.ends[1]) | self._resolved(
                self.program.to, self.ends[1]
            )
            qp.datagram(to, self._sge(size), **options)
        else:
            qp.send(self._sge(size), **self._options(), **options)

    def send_imm(self, size=100):
        self.send(size, imm=0x12345678)

    def send_inv(self, size=100):
        """Invalidates a key that does not allow it."""
        self.send(size, inv_rkey=self.remote.key)

    def write(self, size=100, **options):
        remote = self.rkey, self.va
        self.qps[0].write(remote, self._sge(size), **self._options(), **options)

    def write_imm(self, size=100):
        self._recv()
        self.write(size, imm=0x9ABCDEF0)

    def read(self, size=100):
        self.qps[0].read((self.rkey, self.va), self.back.sge(0, size), **self._options())

    def reads(self):
        for _ in range(8):
            self.read(SIZE)

    def fetch_add(self):
        self.qps[0].fetch_add((self.rkey, self.va), self.back.sge(0, 8), 5, **self._options())

    def compare_swap(self):
        remote = self.rkey, self.va
        self.qps[0].compare_swap(remote, self.back.sge(0, 8), 0, 7, **self._options())

    def masked_swap(self, size=8, at=0):
        """One that swaps, and one that finds something else."""
        remote = self.rkey, self.va + at
        masks = 0x0F, 0xF0
        for compare in (0x30, 0x31):
            self.qps[0].masked_compare_swap(
                remote, self.back.sge(0, size), compare, 0xA5, masks, **self._options()
            )

    def masked_add(self, size=8, at=0):
        """In fields of 4 bits, and as one number."""
        remote = self.rkey, self.va + at
        for add, boundary in ((0x9F, 0x8888), (1 << 8 * size - 1, 0)):
            self.qps[0].masked_fetch_add(
                remote, self.back.sge(0, size), add, boundary, **self._options()
            )

    def crooked(self):
        """An atomic at an address that is no multiple of eight."""
        remote = self.rkey, self.va + 4
        self.qps[0].fetch_add(remote, self.back.sge(0, 8), 5, **self._options())

    # -- what is left behind

    def outcome(self):
        """What a driver sees; nothing but "refused" when its queue pairs could not be made so."""
        if self.is_refused:
            self._close()
            return {"refused": True}
        steps = [step if isinstance(step, tuple) else (step,) for step in self.program.do]
        for name, *sizes in steps:
            getattr(self, name)(*sizes)
        found = [], []
        expected = len(steps) + 7 * ("reads" in self.program.do)
        expected += sum(name in ("masked_swap", "masked_add") for name, *_ in steps)

        def is_over():
            for queue, seen in zip(self.cqs, found):
                seen += queue.drain()
            return len(found[0]) >= expected

        self.setting.wait(is_over)
        self.setting.settle()
        is_over()
        about = {qp.qpn: "left" if at == 0 else "right" for at, qp in enumerate(self.qps)}
        events = sorted(
            (event.name, about.get(number, "shared queue"))
            for node in self.setting.nodes
            for event, number in node.events()
        )
        result = {
            "left": [_seen(one) for one in found[0]],
            "right": [_seen(one) for one in found[1]],
            "events": events,
            "states": [qp.state.name for qp in self.qps],
            "written": self._written(),
            "read": self.back.read(),
            "counters": [self._counted(side) for side in (0, 1)],
            "violations": self._violations(),
            "requests": self._requests(),
        }
        self._close()
        return result

    def _written(self):
        """The receiver's memory, without the addresses in front of a datagram."""
        data = self.remote.read()
        return data[:SIZE] + data[SIZE + 40 :] if self.program.service is QpType.UD else data

    def _counted(self, side):
        answer = self.ends[side].driver.must(Op.QUERY_Q_COUNTER, counter_set_id=self.sets[side])
        values = answer.out.as_dict()
        return {name: value for name, value in values.items() if value and name not in _HEADER}

    def _port(self, node):
        if isinstance(node, RoceNode):
            answer = node.driver.must(Op.QUERY_NIC_VPORT_CONTEXT)
            return (answer.nic_vport_context.qkey_violation_counter,)
        context = node.driver.must(Op.QUERY_HCA_VPORT_CONTEXT).hca_vport_context
        return context.pkey_violation_counter, context.qkey_violation_counter

    def _violations(self):
        """By how much the ports' counters of wrong keys have grown, both ports together."""
        now = [self._port(node) for node in self.setting.nodes]
        grown = [[b - a for a, b in zip(*pair)] for pair in zip(self.before, now)]
        return [sum(column) for column in zip(*grown)]

    def _sent(self):
        return self.ends[0].driver.must(Op.QUERY_VPORT_COUNTER).transmitted_ib_unicast.packets

    def _requests(self):
        """Packets that the left port has sent; None where it sends the right one's, too."""
        return None if len(self.setting.nodes) == 1 else self._sent() - self.sent_before

    def _close(self):
        for node, mtu in zip(self.setting.nodes, self.mtus):
            node.hca.eth.admin_mtu = mtu
        for qp in self.qps:
            qp.destroy()
        if self.target is not None and self.program.twist != "unknown_target":
            self.target.drain()
            self.target.destroy()
        for node, number in zip(self.ends, self.sets):
            if self.target is None or self.program.twist != "unknown_target":
                node.driver.must(Op.DEALLOC_Q_COUNTER, counter_set_id=number)


class _Initiator(Initiator):
    """A DC initiator with attributes and an address vector of the test's."""

    def __init__(self, node, to, *, path, init, **rts):
        self._path, self._init, self.vector = path, init, {}
        super().__init__(node, to, **rts)

    def start(self):
        self.init(primary_address_path=self._path)
        self.to_rtr(**self._init)
        self.to_rts(**self.rts)

    def post(self, opcode, *segments, **options):
        node = self.node
        plain = node.vector_to
        node.vector_to = lambda peer: plain(peer) | self.vector
        try:
            return super().post(opcode, *segments, **options)
        finally:
            del node.vector_to


def _seen(one):
    """A completion without what depends on the setting: numbers, addresses, times."""
    seen = replace(one, qpn=0, srqn=int(bool(one.srqn)), slid=0, timestamp=0)
    return replace(seen, flags_rqpn=one.flags_rqpn >> 24)


_HEADER = ("status", "syndrome")
