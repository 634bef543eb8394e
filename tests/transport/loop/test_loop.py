"""The main loop, with real transports and clients."""

import os
import signal
import socket
import subprocess
import sys
import textwrap
import threading

import pytest

from emu.device.rounds.budget import POLL_BUDGET
from emu.driver.transport.vfio_client import VfioClient
from emu.server.vfio.loop import Loop

MS = 1_000_000


@pytest.fixture
def loop():
    loop = Loop()
    yield loop
    loop.close()


def in_thread(work):
    """Run ``work`` beside the loop, which needs the main thread for its signals."""
    thread = threading.Thread(target=work)
    thread.start()
    return thread


def run_with(loop, work):
    """Run the loop until ``work``, done in a thread, has ended."""
    failures = []

    def guarded():
        try:
            work()
        except BaseException as error:
            failures.append(error)
        finally:
            os.kill(os.getpid(), signal.SIGUSR1)

    with loop.stopped_by(signal.SIGUSR1):
        thread = in_thread(guarded)
        loop.run()
        thread.join()
    assert failures == []


def visit(path):
    client = VfioClient(path)
    client.negotiate()
    assert client.read(0, 64, 4) == bytes(4)
    client.close()


def test_clients_one_after_the_other(served, loop):
    loop.add_transport(served.transport)

    def work():
        for _ in range(3):
            visit(served.path)

    run_with(loop, work)
    assert served.function.polls > 3


def test_two_functions(serve, served, loop, tmp_path):
    """Their clients are served at the same time."""
    other = serve("vfio-user", path=tmp_path / "other.sock")
    loop.add_transport(served.transport)
    loop.add_transport(other.transport)

    def work():
        first, second = VfioClient(served.path), VfioClient(other.path)
        for client in (first, second):
            client.negotiate()
        for number in range(20):
            data = number.to_bytes(4, "little")
            first.post(0, 0, data)
            second.write(0, 4, data)
            assert first.read(0, 0, 4) == data
        first.close()
        assert second.read(0, 4, 4) == data
        second.close()
        visit(served.path)

    run_with(loop, work)


def test_work_is_done_in_shares_with_messages_in_between(served, loop):
    """A guest's read is answered although the function always has more to do."""
    loop.add_transport(served.transport)
    served.function.work = 10**9

    run_with(loop, lambda: visit(served.path))
    assert 0 < served.function.work < 10**9


def test_a_posted_write_is_seen_before_the_function_runs(own, loop):
    client = own.client()
    loop.add_transport(own.transport)
    order = []
    own.function.bar_write = lambda *_: order.append("write")
    own.function.poll = lambda: bool(order.append("run"))
    client.post(0, 0, b"1234")
    client.post(0, 0, b"1234")
    loop.step()
    loop.step()
    assert order == ["run", "write", "write", "run"]


def test_a_round_begins_with_the_function_that_got_no_turn_in_the_last_one(serve, loop, tmp_path):
    order = []

    def takes_a_round(name):
        def run():
            order.append(name)
            loop.budget.charge(POLL_BUDGET + 1)
            return True

        return run

    served = [serve("vfio-user", path=tmp_path / name) for name in "abc"]
    for one, name in zip(served, "abc"):
        one.function.poll = takes_a_round(name)
        loop.add_transport(one.transport)
    for _ in range(4):
        loop.step()
    assert order == ["a", "b", "c", "a"]
    served[1].function.poll = lambda: bool(order.append("quick"))
    loop.step()
    assert order[4:] == ["quick", "c"]


@pytest.mark.parametrize("connected", [True, False])
def test_timers_run_while_we_wait(served, loop, connected):
    if connected:
        served.client()
    loop.add_transport(served.transport)
    start = loop.now_ns()
    calls = []

    def stop():
        calls.append(loop.now_ns() - start)
        loop.stop()

    loop.call_later(40 * MS, stop)
    loop.call_later(10 * MS, lambda: calls.append(loop.now_ns() - start))
    loop.run()
    assert calls[0] >= 10 * MS
    assert calls[1] >= 40 * MS


def test_a_short_wait_is_not_rounded_up_beside_other_descriptors(served, loop):
    """A moderated event is due in microseconds; the best of many shows what the loop can do."""
    loop.add_transport(served.transport)
    reader, writer = os.pipe()
    loop.add_reader(reader, lambda: None)
    loop.step()
    waits = []
    for _ in range(50):
        start = loop.now_ns()
        loop.call_later(MS // 20, loop.wake)
        while loop.next_ns() is not None:
            loop.step(None)
        waits.append(loop.now_ns() - start)
    assert MS // 20 <= min(waits) < 0.9 * MS
    os.close(reader)
    os.close(writer)


def test_other_descriptors(loop):
    reader, writer = os.pipe()
    seen = []

    def read():
        seen.append(os.read(reader, 100))
        loop.remove_reader(reader)
        loop.stop()

    loop.add_reader(reader, read)
    os.write(writer, b"data")
    loop.run()
    assert seen == [b"data"]
    os.write(writer, b"more")
    loop.step()
    assert seen == [b"data"]
    os.close(reader)
    os.close(writer)


def test_a_reader_beside_a_connected_client(served, loop):
    client = served.client()
    reader, writer = os.pipe()
    loop.add_transport(served.transport)
    seen = []
    loop.add_reader(reader, lambda: seen.append(os.read(reader, 100)))
    os.write(writer, b"data")
    msg_id = client.send(4, bytes([16, *[0] * 15]))
    for _ in range(3):
        loop.step()
    assert seen == [b"data"]
    assert client.receive().msg_id == msg_id
    loop.remove_reader(reader)
    os.close(reader)
    os.close(writer)


def test_a_reader_removed_by_another(loop):
    pipes = [os.pipe(), os.pipe()]
    seen = []

    def read(mine, others):
        seen.append(mine)
        loop.remove_reader(others)

    (first, _), (second, _) = pipes
    loop.add_reader(first, lambda: read(first, second))
    loop.add_reader(second, lambda: read(second, first))
    for _, writer in pipes:
        os.write(writer, b"x")
    loop.step()
    assert len(seen) == 1
    for pipe in pipes:
        for fd in pipe:
            os.close(fd)


def test_a_descriptor_closed_while_watched(loop, caplog):
    reader, writer = os.pipe()
    os.close(writer)
    loop.add_reader(reader, lambda: pytest.fail("it is closed"))
    os.close(reader)
    loop.step()
    assert "closed without remove_reader" in caplog.text
    loop.step()


def test_a_descriptor_closed_during_a_short_wait(loop, caplog):
    """Waits below a millisecond are not poll()'s, which alone can tell who is closed."""
    reader, writer = os.pipe()
    loop.add_reader(reader, lambda: pytest.fail("it is closed"))
    loop.call_later(MS // 2, lambda: None)
    os.close(reader)
    loop.step(None)
    os.close(writer)
    assert "closed without remove_reader" in caplog.text


def test_a_removed_transport_is_left_alone(served, loop):
    loop.add_transport(served.transport)
    loop.step()
    loop.remove_transport(served.transport)
    client = VfioClient(served.path)
    loop.step()
    assert not served.transport.connected
    client.close()


@pytest.mark.parametrize("connected", [True, False])
def test_stop_before_run(served, loop, connected):
    if connected:
        served.client()
    loop.add_transport(served.transport)
    loop.stop()
    loop.run()
    loop.call_later(0, loop.stop)
    loop.run()


@pytest.mark.parametrize("connected", [True, False])
def test_wake_makes_it_go_round(served, loop, connected):
    if connected:
        served.client()
    loop.add_transport(served.transport)
    loop.step()
    rounds = loop.budget.number
    loop.wake()
    loop.step(None)
    loop.wake()
    loop.step(None)
    assert loop.budget.number == rounds + 2


SERVER = """
import signal, sys
from helpers.device.fake_function import FakeFunction
from emu.server.vfio.kinds import make_transport
from emu.server.vfio.loop import Loop

transport = make_transport(sys.argv[1], sys.argv[2])
transport.listen(FakeFunction())
loop = Loop()
loop.add_transport(transport)
with loop.stopped_by(signal.SIGTERM, signal.SIGINT):
    print("ready", flush=True)
    loop.run()
loop.close()
print("stopped", flush=True)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("connected", [True, False])
def test_a_signal_stops_an_idle_server(served, tmp_path, number, connected):
    """Also while it blocks in the receive call, where Python would go on after the handler."""
    path = tmp_path / "server.sock"
    command = [sys.executable, "-c", textwrap.dedent(SERVER), served.kind, str(path)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, text=True) as server:
        assert server.stdout.readline() == "ready\n"
        client = VfioClient(path) if connected else None
        if client:
            client.negotiate()
            client.device_info()
        server.send_signal(number)
        assert server.communicate(timeout=30)[0] == "stopped\n"
        assert server.returncode == 0
        if client:
            client.close()
    assert not path.exists()


def test_an_idle_loop_uses_no_cpu(served, loop):
    """Blocked, it wakes up for its timers only."""
    served.client()
    loop.add_transport(served.transport)
    loop.call_later(300 * MS, loop.stop)
    before = loop.now_ns()
    loop.run()
    assert loop.now_ns() - before >= 300 * MS
    assert served.function.polls < 50


def test_quiet_reader_beside_the_sole_transport(served, loop):
    """It is called although the loop blocks in the transport's receive, and not after removal."""
    loop.add_transport(served.transport)
    reader, writer = os.pipe()
    taken = []
    end, other = socket.socketpair()
    end.setblocking(False)

    def take():
        taken.append(end.recv(1))
        if len(taken) == 3:
            loop.remove_reader(end.fileno())
            os.write(writer, b".")

    loop.add_quiet_reader(end.fileno(), take)

    def work():
        client = VfioClient(served.path)
        client.negotiate()
        assert client.read(0, 64, 4) == bytes(4)
        other.sendall(b"abc")
        assert os.read(reader, 1) == b"."
        assert client.read(0, 64, 4) == bytes(4)
        other.sendall(b"d")
        client.close()

    run_with(loop, work)
    assert b"".join(taken) == b"abc"
    for fd in (reader, writer):
        os.close(fd)
    end.close()
    other.close()
