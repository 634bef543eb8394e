"""A client that makes the server's write to its eventfd block: an alarm ends it."""

import contextlib
import os
import signal
import subprocess
import sys
import textwrap

import pytest

from emu.driver.transport.vfio_client import VfioClient
from emu.server.vfio.waits.alarm import ALARM

pytestmark = pytest.mark.hostile

FULL = (1 << 64) - 2

SERVER = """
import signal, sys
from helpers.device.fake_function import FakeFunction
from emu.server.vfio.kinds import make_transport
from emu.server.vfio.loop import Loop

loop, functions = Loop(), []
for path in sys.argv[2:]:
    transport, function = make_transport(sys.argv[1], path), FakeFunction()
    function.bar_write = lambda bar, offset, data, irqs=transport.interrupts: irqs.trigger(offset)
    transport.listen(function)
    loop.add_transport(transport)
with loop.stopped_by(signal.SIGTERM):
    print("ready", flush=True)
    loop.run()
loop.close()
"""


@pytest.fixture
def paths(kind, tmp_path):
    """The sockets of two functions of one server, in a process of its own: the alarm is its."""
    paths = [tmp_path / "one", tmp_path / "two"]
    command = [sys.executable, "-c", textwrap.dedent(SERVER), kind, *map(str, paths)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, text=True) as server:
        assert server.stdout.readline() == "ready\n"
        yield paths
        server.send_signal(signal.SIGTERM)
        assert server.wait(30) == 0


@pytest.fixture
def client_of():
    """Makes clients and closes them afterwards."""
    with contextlib.ExitStack() as cleanup:

        def make(path):
            client = VfioClient(path, timeout=30)
            cleanup.callback(client.close)
            client.negotiate()
            return client

        yield make


def test_the_server_goes_on_without_the_client(paths, client_of):
    hostile, honest = map(client_of, paths)
    vectors = [hostile.enable_vector(number) for number in range(8)]
    for vector in vectors:
        os.set_blocking(vector, True)
        os.eventfd_write(vector, FULL)
    for number in range(8):
        hostile.post(0, number, b"ring")
    assert honest.read(0, 0, 4) == bytes(4)
    good = honest.enable_vector(3)
    honest.write(0, 3, b"ring")
    assert os.eventfd_read(good) == 1
    with pytest.raises((EOFError, ConnectionError)):
        hostile.read(0, 0, 4)
    client_of(paths[0]).device_info()
    for fd in (*vectors, good):
        os.close(fd)


def test_a_full_counter_is_no_offence(paths, client_of):
    """A guest that takes no interrupts for long has been interrupted once for all."""
    client = client_of(paths[0])
    vector = client.enable_vector(0)
    os.eventfd_write(vector, FULL)
    client.write(0, 0, b"ring")
    assert client.read(0, 0, 4) == bytes(4)
    os.close(vector)


def test_an_alarm_of_somebody_else_stays_his(monkeypatch):
    def handler(*_):
        pass

    previous = signal.signal(signal.SIGALRM, handler)
    monkeypatch.setattr(signal, "setitimer", lambda *_: pytest.fail("it is another's"))
    try:
        with ALARM.ready(lambda: None):
            ALARM.set()
            assert signal.getsignal(signal.SIGALRM) is handler
    finally:
        monkeypatch.undo()
        signal.signal(signal.SIGALRM, previous)


def test_it_is_set_seldom(monkeypatch):
    """Interrupts come by the ten thousand each second."""
    calls = []
    previous = signal.signal(signal.SIGALRM, signal.SIG_DFL)
    monkeypatch.setattr(signal, "setitimer", lambda *args: calls.append(args))
    try:
        with ALARM.ready(lambda: None):
            for _ in range(1000):
                ALARM.set()
            assert len(calls) == 1
            assert calls[0][1] < 0.05
    finally:
        monkeypatch.undo()
        signal.signal(signal.SIGALRM, previous)


def test_it_ends_a_wait_as_well():
    """Python begins the interrupted call anew, with the whole time limit: a timer would be late."""
    woken = []
    previous = signal.signal(signal.SIGALRM, signal.SIG_DFL)
    try:
        with ALARM.ready(lambda: woken.append(1)):
            signal.raise_signal(signal.SIGALRM)
        assert woken == [1]
    finally:
        signal.signal(signal.SIGALRM, previous)
