"""A physical function asks its client, which may do anything, to place its virtual functions."""

import errno
import struct

import pytest
from helpers.device.sriov import (
    CONTROL,
    DEVICE_CONTROL,
    INITIATE_FLR,
    NUM_VFS,
    SRIOV,
    VF_BAR,
    Sriov,
)

from emu.driver.world.clock import HandClock
from emu.server.service.vf_placement import VfPlacement
from emu.server.vfio.protocol import HEADER, REGION_ACCESS, MessageFlag, RegionIndex, VfioCommand

BASES = (0xB000_0000, 0xE000_0000)
COMMAND, BAR0 = 0x04, 0x10
MEMORY, MASTER = 2, 4
BUS = 6
BAR = 0x38_0400_0000
VF_BYTES = 1 << 20
SYSTEM_PAGE = SRIOV + 0x20
RANGE = struct.Struct("=QQ")
NO_REPLY, REPLY, ERROR = MessageFlag.NO_REPLY, MessageFlag.REPLY, MessageFlag.ERROR
READ, WRITE = VfioCommand.DMA_READ, VfioCommand.DMA_WRITE
BATCH = 256
VFS = 2


class Qemu:
    """A client that keeps the server's requests, and answers them when it is told to."""

    def __init__(self, served, sriov):
        self.served, self.sriov = served, sriov
        self.client = served.client()
        self.requests = []

    def settle(self):
        """Let the server handle all that it has been sent."""
        for _ in range(8):
            self.served.step()

    def send(self, cmd, payload, flags=0):
        """Send a request; wait for its reply, and keep what comes before it and with it."""
        wanted = self.client.send(cmd, payload, flags=flags)
        while True:
            message = self.client.receive()
            if message.flags & MessageFlag.TYPE_MASK == REPLY:
                assert message.msg_id == wanted
                return message
            self.requests.append(message)

    def config_write(self, offset, length, value):
        access = REGION_ACCESS.pack(offset, RegionIndex.CONFIG, length)
        self.send(VfioCommand.REGION_WRITE, access + value.to_bytes(length, "little"))

    def config_read(self, offset, length):
        access = REGION_ACCESS.pack(offset, RegionIndex.CONFIG, length)
        return self.send(VfioCommand.REGION_READ, access).payload[len(access) :]

    def put_vf_bar(self, address):
        self.config_write(VF_BAR, 4, address & 0xFFFF_FFFF)
        self.config_write(VF_BAR + 4, 4, address >> 32)

    def master(self, command=MEMORY | MASTER):
        self.config_write(COMMAND, 2, command)

    def take(self):
        """The requests so far, which are then forgotten."""
        taken, self.requests = self.requests, []
        return taken

    def reply(self, request, error=0, cmd=None):
        flags = REPLY | (ERROR if error else 0)
        self.client.send_raw(
            HEADER.pack(request.msg_id, cmd or request.cmd, HEADER.size, flags, error)
        )

    def execute(self, base=BASES[0], bus=BUS):
        """Execute the requests as QEMU does; return how many, and repeat until none is left."""
        done = 0
        while requests := self.take():
            assert len(requests) <= BATCH
            for request in requests:
                self._execute(request, base + (bus << 20))
                done += 1
            self.reply(request)
            self.config_read(0, 4)
        return done

    def _execute(self, request, own_bus):
        address, count = RANGE.unpack_from(request.payload)
        data = request.payload[RANGE.size :]
        devfn, offset = divmod(address - own_bus, 1 << 12)
        if request.cmd == READ:
            if address - own_bus in range(1 << 12):
                self.config_read(offset, count)
        elif 1 <= devfn <= VFS:
            value = getattr(self, "value", data)
            if value is not None:
                written = data if value == data else bytes(len(data))
                self.sriov.vfs[devfn - 1].function.config_write(offset, written)

    def reply_to_search(self):
        """Answer the search, in which the bus was found; the writes follow."""
        requests = self.take()
        for request in requests:
            self._execute(request, BASES[0] + (BUS << 20))
        self.reply(requests[-1])
        self.config_read(0, 4)

    def refuse(self):
        """Refuse all requests of a batch."""
        for request in self.take():
            self.reply(request, errno.EINVAL)
        self.config_read(0, 4)

    def bars(self):
        return [vf.get(BAR0, 8) & ~0xF for vf in self.sriov.vfs]

    @property
    def is_placed(self):
        return self.bars() == [BAR, BAR + VF_BYTES]


@pytest.fixture
def sriov():
    return Sriov(HandClock(), VFS)


@pytest.fixture
def served(serve, sriov):
    made = serve("vfio-user", function=sriov.pf.function)
    vfs = [vf.function for vf in sriov.vfs]
    made.transport.observe(VfPlacement("function 0", made.transport, sriov.pf.function.config, vfs))
    return made


@pytest.fixture
def qemu(served, sriov):
    return Qemu(served, sriov)


def test_vfs_are_placed_once_the_bus_is_known(qemu):
    qemu.put_vf_bar(BAR)
    assert not qemu.requests, "no DMA before Bus Master Enable"
    qemu.master()
    knocks = qemu.requests[:]
    assert len(knocks) == BATCH
    assert {knock.cmd for knock in knocks} == {READ}
    assert [knock.flags for knock in knocks] == [NO_REPLY] * (BATCH - 1) + [0]
    qemu.execute()
    assert qemu.is_placed
    assert [vf.get(COMMAND, 2) for vf in qemu.sriov.vfs] == [MEMORY] * VFS


def test_vfs_are_a_system_page_apart(qemu):
    qemu.config_write(SYSTEM_PAGE, 4, 0x400)
    qemu.put_vf_bar(BAR)
    qemu.master()
    qemu.execute()
    assert qemu.bars() == [BAR, BAR + (4 << 20)]


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("bus", [0, 1, 255])
def test_each_bus_and_base_is_found(qemu, base, bus):
    qemu.put_vf_bar(BAR)
    qemu.master()
    qemu.execute(base, bus)
    assert qemu.is_placed


def test_vf_enable_searches_again(qemu):
    qemu.put_vf_bar(BAR)
    qemu.master()
    qemu.execute()
    qemu.config_write(NUM_VFS, 2, VFS)
    qemu.config_write(CONTROL, 2, 9)
    assert len(qemu.requests) == BATCH
    assert qemu.execute(bus=9) == BATCH, "all is in its place"
    qemu.config_write(CONTROL, 2, 0)
    assert not qemu.is_placed
    qemu.config_write(CONTROL, 2, 9)
    qemu.execute(bus=9)
    assert qemu.is_placed


def test_a_vf_keeps_its_bus_master_enable(qemu):
    qemu.put_vf_bar(BAR)
    qemu.sriov.vfs[0].put(COMMAND, 2, MASTER)
    qemu.master()
    qemu.execute()
    assert qemu.sriov.vfs[0].get(COMMAND, 2) == MEMORY | MASTER


def test_a_new_vf_bar_needs_no_search(qemu):
    qemu.put_vf_bar(BAR + (1 << 30))
    qemu.master()
    qemu.execute()
    qemu.put_vf_bar(BAR)
    assert {request.cmd for request in qemu.requests} == {WRITE}
    qemu.execute()
    assert qemu.is_placed


def test_sizing_sends_nothing(qemu):
    qemu.put_vf_bar(BAR)
    qemu.master()
    qemu.execute()
    for offset, value in ((0, BAR & 0xFFFF_FFFF), (4, BAR >> 32)):
        qemu.config_write(VF_BAR + offset, 4, 0xFFFF_FFFF)
        qemu.config_write(VF_BAR + offset, 4, value)
    assert not qemu.requests


def test_nothing_is_placed_without_an_address(qemu):
    qemu.master()
    assert qemu.execute() == BATCH
    assert qemu.bars() == [0, 0]
    qemu.put_vf_bar(BAR)
    qemu.execute()
    assert qemu.is_placed


def test_a_reset_forgets_the_bus(qemu):
    qemu.put_vf_bar(BAR)
    qemu.master()
    qemu.execute()
    qemu.send(VfioCommand.DEVICE_RESET, b"")
    for vf in qemu.sriov.vfs:
        vf.function.reset()
    qemu.put_vf_bar(BAR)
    assert not qemu.requests
    qemu.master()
    qemu.execute(bus=3)
    assert qemu.is_placed


def test_a_start_while_a_search_is_under_way_searches_again(qemu):
    qemu.put_vf_bar(BAR)
    qemu.master()
    qemu.master(0)
    qemu.master()
    assert len(qemu.requests) == BATCH, "one batch at a time"
    assert qemu.execute() > 2 * BATCH
    assert qemu.is_placed


def test_another_client_begins_anew(served, sriov, qemu):
    qemu.put_vf_bar(BAR)
    qemu.master()
    qemu.client.close()
    served.settle()
    other = Qemu(served, sriov)
    other.put_vf_bar(BAR)
    other.master()
    other.execute()
    assert other.is_placed


def test_refused_requests_are_reported_once(qemu, caplog):
    qemu.put_vf_bar(BAR)
    for _ in range(3):
        qemu.master()
        while requests := qemu.take():
            for request in requests:
                qemu.reply(request, errno.EFAULT)
            qemu.config_read(0, 4)
        qemu.master(0)
    assert qemu.bars() == [0, 0]
    warnings = [line for line in caplog.messages if "have no place" in line]
    assert len(warnings) == 1
    assert "256 of 256 reads were refused" in warnings[0]
    assert "IOMMU" in warnings[0]


@pytest.mark.parametrize("value", [None, 0])
def test_writes_that_do_not_arrive_are_reported(qemu, caplog, value):
    """Because the VFs are elsewhere, or because QEMU 10.1 reads another layout: then of zeros."""
    qemu.value = value
    qemu.put_vf_bar(BAR)
    qemu.master()
    qemu.execute()
    warnings = [line for line in caplog.messages if "have no place" in line]
    assert len(warnings) == 1
    assert "2 of 2 writes of a BAR did not arrive" in warnings[0]
    assert not qemu.requests, "no second attempt"
    del qemu.value
    qemu.master(0)
    qemu.master()
    qemu.execute()
    assert qemu.is_placed


@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize("found", [False, True])
def test_a_short_bus_master_enable_is_no_reason_to_complain(qemu, caplog, found, again):
    """OVMF sets it and clears it while it assigns resources; QEMU refuses what comes later."""
    qemu.put_vf_bar(BAR)
    qemu.master()
    if found:
        qemu.reply_to_search()
    else:
        qemu.refuse()
    qemu.master(0)
    if again:
        qemu.master()
    qemu.refuse()
    assert "have no place" not in caplog.text
    qemu.master(0)
    qemu.master()
    qemu.execute()
    assert qemu.is_placed


@pytest.mark.hostile
def test_a_client_that_never_answers_gets_one_batch(qemu):
    qemu.put_vf_bar(BAR)
    for _ in range(50):
        qemu.master()
        qemu.master(0)
        qemu.put_vf_bar(BAR + VF_BYTES)
        qemu.put_vf_bar(BAR)
    assert len(qemu.requests) == BATCH


@pytest.mark.hostile
@pytest.mark.parametrize("how", ["flr", "reset"])
def test_replies_may_come_after_a_reset(qemu, sriov, how):
    """The bus that they find is not the present one: the search begins anew."""
    qemu.put_vf_bar(BAR)
    qemu.master()
    late = qemu.take()
    if how == "flr":
        qemu.config_write(DEVICE_CONTROL, 2, INITIATE_FLR)
    else:
        qemu.client.call(VfioCommand.DEVICE_RESET)
    qemu.put_vf_bar(BAR)
    qemu.master()
    assert not qemu.requests, "one batch at a time"
    for request in late:
        qemu._execute(request, BASES[0] + (BUS << 20))
    qemu.reply(late[-1])
    qemu.config_read(0, 4)
    qemu.execute(bus=BUS + 1)
    assert qemu.is_placed


@pytest.mark.hostile
@pytest.mark.parametrize("case", ["unknown id", "twice", "other command", "none expected"])
def test_a_reply_to_nothing_drops_the_client(served, qemu, case):
    if case == "none expected":
        qemu.master(MEMORY)
        qemu.client.send_raw(HEADER.pack(1, READ, HEADER.size, REPLY, 0))
    else:
        qemu.master()
        first = qemu.take()[0]
        if case == "unknown id":
            qemu.reply(first._replace(msg_id=0xABCD))
        elif case == "other command":
            qemu.reply(first, cmd=WRITE)
        else:
            qemu.reply(first)
            qemu.reply(first)
    served.settle()


@pytest.mark.hostile
@pytest.mark.parametrize("size", [0, HEADER.size - 1, 1 << 31])
def test_a_reply_of_an_impossible_size_drops_the_client(served, qemu, size):
    qemu.master()
    qemu.client.send_raw(HEADER.pack(qemu.take()[0].msg_id, READ, size, REPLY, 0))
    served.settle()


@pytest.mark.hostile
def test_a_large_reply_is_taken(qemu):
    qemu.put_vf_bar(BAR)
    qemu.master()
    *_, last = qemu.take()
    data = bytes(1 << 16)
    header = HEADER.pack(last.msg_id, READ, HEADER.size + len(data), REPLY, 0)
    qemu.client.send_raw(header + data)
    qemu.settle()
    qemu.config_read(0, 4)
    assert len(qemu.requests) == BATCH, "the next base"


@pytest.mark.hostile
def test_reads_by_the_guest_are_no_answer(qemu):
    qemu.put_vf_bar(BAR)
    for offset in (0xF06, 0xE06):
        qemu.config_read(offset, 1)
    qemu.master()
    qemu.config_read(0xF00, 4)
    qemu.config_read(0xDFF, 1)
    qemu.config_read(0x06, 1)
    *_, last = qemu.take()
    qemu.reply(last)
    qemu.config_read(0, 4)
    assert {request.cmd for request in qemu.requests} == {READ}, "the next base"


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_vf_bar_at_the_end_of_the_address_space(qemu, caplog, when):
    """No address is left for the second VF."""
    last = (1 << 64) - VF_BYTES
    if when == "before":
        qemu.put_vf_bar(last)
    qemu.master()
    qemu.execute()
    if when == "after":
        qemu.put_vf_bar(last)
        qemu.config_write(NUM_VFS, 2, VFS)
        qemu.config_write(CONTROL, 2, 9)
        qemu.execute()
    assert not [record for record in caplog.records if record.exc_info]
    qemu.put_vf_bar(BAR)
    qemu.execute()
    assert qemu.is_placed
