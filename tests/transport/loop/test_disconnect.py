"""Clients that leave, in whatever state, and the next one."""

import contextlib
import gc
import logging
import os
import resource
import socket

import pytest

from emu.device.ports import DmaError
from emu.server.vfio.base import TransportError
from emu.server.vfio.kinds import make_transport
from emu.server.vfio.protocol import HEADER, MAX_MSG_SIZE, REGION_ACCESS, MessageFlag, VfioCommand
from emu.server.vfio.session import VfioSession

pytestmark = pytest.mark.hostile


def open_descriptors():
    gc.collect()
    return {
        name: os.readlink(f"/proc/self/fd/{name}") for name in map(str, range(1024)) if exists(name)
    }


def exists(name):
    return os.path.lexists(f"/proc/self/fd/{name}")


def message(cmd, payload=b"", *, size=None, flags=0):
    return HEADER.pack(1, cmd, size or HEADER.size + len(payload), flags, 0) + payload


def test_a_signal_while_a_client_is_dropped_wakes_nobody(own, own_client, monkeypatch):
    """The control socket's handler may run in the middle of it, with the socket just closed."""
    close = VfioSession.close

    def interrupted(session):
        close(session)
        own.transport.wake()

    monkeypatch.setattr(VfioSession, "close", interrupted)
    own_client.close()
    own.settle()
    assert not own.transport.connected


def test_the_next_client_finds_a_fresh_function(served):
    ram = served.ram(0x1000)
    for turn in range(3):
        client = served.client()
        client.dma_map(0, 0x1000, fd=ram.fd)
        eventfd = client.enable_vector(0)
        served.interrupts.trigger(0)
        served.interrupts.trigger(1)
        assert os.eventfd_read(eventfd) == 1
        os.close(eventfd)
        client.close()
        served.settle()
        assert served.function.resets == turn + 1
        assert not served.interrupts.pending(1)
        with pytest.raises(DmaError, match="not mapped"):
            served.memory.read(0, 1)
        served.interrupts.trigger(0)
        assert served.interrupts.pending(0)
        served.interrupts.clear_pending()


def test_function_that_remembers_views_until_it_is_reset(served, caplog):
    """As a memory key does; what a reset leaves behind may be garbage that refers to itself."""

    class Remembering(type(served.function)):
        def reset(self):
            super().reset()
            del self.seen

    served.function.__class__ = Remembering
    client, ram = served.client(), served.ram(0x1000)
    client.dma_map(0, 0x1000, fd=ram.fd)
    served.function.seen = seen = [served.memory.view(0, 4)]
    seen.append(seen)
    del seen
    client.close()
    served.settle()
    assert served.function.resets == 1
    assert "outlives its mapping" not in caplog.text


def test_memory_and_interrupts_stay_the_same_objects(served):
    memory, interrupts = served.memory, served.interrupts
    served.client().close()
    served.settle()
    served.client()
    assert served.transport.memory is memory
    assert served.transport.interrupts is interrupts


def test_the_function_is_reset_after_its_memory_is_gone(served):
    ram = served.ram(0x1000)
    client = served.client()
    client.dma_map(0, 0x1000, fd=ram.fd)
    seen = []
    served.function.reset = lambda: seen.append(len(served.memory))
    client.close()
    served.settle()
    assert seen == [0]


def test_a_failing_reset_does_not_stop_us(served, caplog):
    def reset():
        raise RuntimeError("the function has a bug")

    client = served.client()
    served.function.reset = reset
    client.close()
    served.settle()
    assert "internal error after the client has left" in caplog.text
    caplog.clear()
    served.client().device_info()


def test_no_descriptor_is_left_behind(served):
    def visit():
        client = served.client()
        ram = served.ram(0x2000)
        client.dma_map(0, 0x1000, fd=ram.fd)
        client.dma_map(0x1000, 0x1000, fd=ram.fd, offset=0x1000)
        os.close(client.enable_vector(0))
        os.close(client.enable_vector(31))
        served.memory.write(0, b"used")
        client.close()
        served.settle()
        ram.close()
        served._cleanup.pop_all()

    visit()
    before = open_descriptors()
    for _ in range(3):
        visit()
    assert open_descriptors() == before


@pytest.mark.parametrize(
    "data",
    [
        message(VfioCommand.DEVICE_RESET)[:1],
        message(VfioCommand.DEVICE_RESET)[:15],
        message(VfioCommand.REGION_WRITE, REGION_ACCESS.pack(0, 0, 4) + b"1234")[:20],
        message(VfioCommand.REGION_WRITE, REGION_ACCESS.pack(0, 0, 4) + b"1234")[:35],
        message(VfioCommand.DMA_MAP, bytes(32))[:17],
    ],
)
def test_leaving_in_the_middle_of_a_message(served, data, caplog):
    client = served.client()
    pipe = os.pipe()
    before = open_descriptors()
    client.send_raw(data, pipe)
    if served.own:
        served.step()
    client.close()
    served.settle()
    assert served.function.accesses == []
    assert set(open_descriptors()) < set(before)
    assert [record.levelno for record in caplog.records].count(logging.WARNING) == 1
    served.client().device_info()
    for fd in pipe:
        os.close(fd)


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        bytes(64),
        b"\xff" * 64,
        message(VfioCommand.DEVICE_RESET, size=15),
        message(VfioCommand.DEVICE_RESET, size=MAX_MSG_SIZE + 1),
        message(VfioCommand.DEVICE_RESET, size=0xFFFFFFFF),
        message(VfioCommand.DEVICE_RESET, flags=MessageFlag.REPLY),
        message(VfioCommand.DEVICE_RESET, flags=MessageFlag.ERROR),
        message(VfioCommand.DEVICE_RESET, flags=2),
        message(VfioCommand.DEVICE_RESET, flags=0x40),
        message(VfioCommand.DEVICE_RESET, flags=0x80000000),
    ],
)
@pytest.mark.parametrize("negotiated", [True, False])
def test_garbage_ends_the_connection(own, data, negotiated, caplog):
    client = own.client() if negotiated else own.connect()
    own.step()
    client.send_raw(data)
    with pytest.raises((EOFError, ConnectionResetError)):
        client.receive()
    assert own.function.resets == 1
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    own.client().device_info()


def test_garbage_with_descriptors(own):
    before = open_descriptors()
    client = own.client()
    client.send_raw(b"\xff" * 64, [client.sock.fileno()] * 253)
    own.settle()
    client.close()
    own._cleanup.pop_all()
    assert open_descriptors() == before


def test_descriptors_heaped_on_one_message(own):
    client = own.client()
    before = len(open_descriptors())
    for _ in range(2):
        client.send_raw(b"\1", [client.sock.fileno()] * 253)
        own.step()
    assert not own.transport.connected
    assert len(open_descriptors()) == before - 1


@contextlib.contextmanager
def descriptors_left(count):
    """Let this process open ``count`` more descriptors and no other."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = max(map(int, os.listdir("/proc/self/fd")))
    fillers = [os.open("/dev/null", os.O_RDONLY)]
    while fillers[-1] <= highest:
        fillers.append(os.open("/dev/null", os.O_RDONLY))
    resource.setrlimit(resource.RLIMIT_NOFILE, (fillers[-1] + 1 + count, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        for fd in fillers:
            os.close(fd)


def test_descriptors_beyond_our_limit(own, caplog):
    """The kernel drops those that do not fit; which ones, nobody can tell."""
    client = own.client()
    with descriptors_left(4):
        client.send_raw(message(VfioCommand.DEVICE_RESET), [client.sock.fileno()] * 16)
        own.step()
    assert not own.transport.connected
    assert "too many descriptors" in caplog.text
    own.client().device_info()


def test_no_descriptor_left_for_a_client(served, caplog):
    """It is turned away: as long as it waited, the loop would go round."""
    client = served.connect()
    with descriptors_left(0):
        served.step()
        served.step()
    assert not served.transport.connected
    assert caplog.text.count("cannot accept") == 1
    with pytest.raises(EOFError):
        client.receive()
    served.client().device_info()


def test_a_client_that_comes_and_goes(served):
    served.connect().close()
    served.step()
    served.settle()
    served.client().device_info()


def test_one_client_at_a_time(served):
    first = served.client()
    second = served.connect()
    first.device_info()
    served.transport.accept()
    first.device_info()
    first.close()
    served.settle()
    second.negotiate()
    second.device_info()


def test_before_listening(served, tmp_path):
    transport = make_transport(served.kind, tmp_path / "unused")
    transport.accept()
    transport.serve(0)
    transport.wake()
    assert (transport.connected, transport.fileno()) == (False, -1)
    with pytest.raises(TransportError, match="listen"):
        _ = transport.function
    transport.close()


def test_a_path_in_use(served, tmp_path):
    other = make_transport(served.kind, served.path)
    with pytest.raises(TransportError, match="another process"):
        other.listen(served.function)
    other.close()
    served.client().device_info()


def test_closing_with_a_client(served):
    client = served.client()
    served.transport.close()
    served.transport.close()
    assert not served.transport.connected
    assert served.transport.fileno() == -1
    assert not served.path.exists()
    assert served.function.resets == 1
    with pytest.raises((EOFError, ConnectionResetError)):
        client.receive()
    with socket.socket(socket.AF_UNIX) as sock, pytest.raises(FileNotFoundError):
        sock.connect(str(served.path))
