"""Hostile front ends: what is wrong drops them with a line in the log, and the next is served."""

import contextlib
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from emu.driver.transport.vhost_client import QUEUE_SIZE, USER
from emu.server.vhost.pcidev import COMMANDS, INTERRUPTS
from emu.server.vhost.protocol import (
    HEADER,
    MEM_REGION,
    MEM_TABLE,
    U64,
    VERSION,
    VRING_ADDR,
    VRING_STATE,
    DescriptorFlag,
    VhostMessageFlag,
    VhostRequest,
)

pytestmark = pytest.mark.hostile

relaxed = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
NEED_REPLY = VERSION | VhostMessageFlag.NEED_REPLY


def mappings():
    """How often memory of front ends is mapped."""
    return Path("/proc/self/maps").read_text().count("memfd:guest")


def is_dropped(served, client, caplog, why):
    """The front end is gone, the log says why, and an honest one is served."""
    served.settle()
    assert why in caplog.text
    assert "Traceback" not in caplog.text
    client.close()
    assert mappings() == 0
    assert served.client().read(0, 0, 4) == bytes(4)


def open_files():
    """How many descriptors of front ends' memory are open."""
    fds = [f"/proc/self/fd/{name}" for name in os.listdir("/proc/self/fd")]
    return sum("memfd:guest" in os.readlink(fd) for fd in fds if os.path.lexists(fd))


@pytest.fixture
def peer(served):
    """Negotiated, but nothing more."""
    client = served.connect()
    client.negotiate()
    return client


def state(index, num):
    return VRING_STATE.pack(index, num)


BAD_MESSAGES = {
    "version 0": (VhostRequest.SET_OWNER, b"", 0, "flags 0x0"),
    "a reply": (VhostRequest.SET_OWNER, b"", VERSION | VhostMessageFlag.REPLY, "flags 0x5"),
    "unknown": (99, b"", VERSION, "request 99 is not supported"),
    "payload too short": (VhostRequest.SET_VRING_NUM, b"\0" * 4, VERSION, "4 bytes, not 8"),
    "payload too long": (VhostRequest.SET_VRING_NUM, b"\0" * 12, VERSION, "12 bytes, not 8"),
    "features": (VhostRequest.SET_FEATURES, U64.pack(1 << 28), VERSION, "features 0x10000000"),
    "no in-band kicks": (
        VhostRequest.SET_PROTOCOL_FEATURES,
        U64.pack(8),
        VERSION,
        "the required ones are",
    ),
    "queue 2": (VhostRequest.SET_VRING_NUM, state(2, 16), VERSION, "queue 2"),
    "queue 2 enabled": (VhostRequest.SET_VRING_ENABLE, state(2, 1), VERSION, "queue 2"),
    "queue 2^32-1": (VhostRequest.GET_VRING_BASE, state(2**32 - 1, 0), VERSION, "queue 42949"),
    "size 0": (VhostRequest.SET_VRING_NUM, state(0, 0), VERSION, "a queue of 0"),
    "size 12": (VhostRequest.SET_VRING_NUM, state(0, 12), VERSION, "a queue of 12"),
    "size 65536": (VhostRequest.SET_VRING_NUM, state(0, 1 << 16), VERSION, "a queue of 65536"),
    "base": (VhostRequest.SET_VRING_BASE, state(0, 1 << 16), VERSION, "base 0x10000"),
    "enabled too early": (VhostRequest.SET_VRING_ENABLE, state(0, 1), VERSION, "before its setup"),
    "ring nowhere": (
        VhostRequest.SET_VRING_ADDR,
        VRING_ADDR.pack(0, 0, USER, USER, USER, 0),
        VERSION,
        "outside the memory",
    ),
    "a log": (
        VhostRequest.SET_VRING_ADDR,
        VRING_ADDR.pack(0, 1, USER, USER, USER, 0),
        VERSION,
        "no log support",
    ),
    "no descriptor": (VhostRequest.SET_BACKEND_REQ_FD, b"", VERSION, "0 descriptors, not 1"),
    "no table": (VhostRequest.SET_MEM_TABLE, b"", VERSION, "a memory table of 0 bytes"),
    "no regions": (VhostRequest.SET_MEM_TABLE, MEM_TABLE.pack(0, 0), VERSION, "of 0 regions"),
    "9 regions": (VhostRequest.SET_MEM_TABLE, MEM_TABLE.pack(9, 0), VERSION, "of 9 regions"),
    "2^32-1 regions": (VhostRequest.SET_MEM_TABLE, b"\xff" * 8, VERSION, "of 4294967295 regions"),
    "regions without files": (
        VhostRequest.SET_MEM_TABLE,
        MEM_TABLE.pack(1, 0) + bytes(MEM_REGION.size),
        VERSION,
        "0 descriptors, not 1",
    ),
}


@pytest.mark.parametrize(
    ("request_", "payload", "flags", "why"), BAD_MESSAGES.values(), ids=BAD_MESSAGES
)
def test_bad_message(served, peer, caplog, request_, payload, flags, why):
    peer.send(request_, payload, flags=flags)
    is_dropped(served, peer, caplog, why)


def test_a_message_that_says_it_is_long(served, peer, caplog):
    peer.sock.send(HEADER.pack(VhostRequest.SET_OWNER, VERSION, 1 << 31))
    is_dropped(served, peer, caplog, "2147483648 bytes")


def test_half_a_message(served, peer, caplog):
    peer.sock.send(b"\1\0\0")
    peer.sock.shutdown(1)
    is_dropped(served, peer, caplog, "within a message")


def test_descriptors_that_no_message_takes(served, peer, caplog):
    before = open_files()
    peer.send(VhostRequest.SET_OWNER, fds=[peer.fd] * 3)
    served.settle()
    assert "3 descriptors, not 0" in caplog.text
    assert open_files() == before


def test_replies_that_nobody_reads(served, peer, caplog):
    message = HEADER.pack(VhostRequest.GET_FEATURES, VERSION, 0)
    for _ in range(2000):
        with contextlib.suppress(BrokenPipeError, ConnectionResetError, BlockingIOError):
            peer.sock.setblocking(False)
            peer.sock.send(message * 100)
        served.step()
        if not served.transport.connected:
            break
    is_dropped(served, peer, caplog, "does not read its replies")


REGIONS = {
    "unaligned": [(0x100001, 0x1000, USER, 0)],
    "empty": [(0x100000, 0, USER, 0)],
    "beyond the file": [(0x100000, 1 << 21, USER, 0)],
    "offset beyond the file": [(0x100000, 0x1000, USER, 1 << 40)],
    "past the end": [(2**64 - 0x1000, 0x2000, USER, 0)],
    "twice": [(0x100000, 0x1000, USER, 0), (0x100000, 0x1000, USER, 0)],
}


@pytest.mark.parametrize("regions", REGIONS.values(), ids=REGIONS)
def test_bad_region(served, peer, caplog, regions):
    with pytest.raises((EOFError, ConnectionResetError)):
        peer.share(regions)
    is_dropped(served, peer, caplog, "SET_MEM_TABLE")


def test_no_file(served, peer, caplog):
    end, other = os.pipe()
    payload = MEM_TABLE.pack(1, 0) + MEM_REGION.pack(0, 0x1000, USER, 0)
    peer.send(VhostRequest.SET_MEM_TABLE, payload, [end])
    os.close(end)
    os.close(other)
    is_dropped(served, peer, caplog, "not a file's")


def test_a_ring_that_runs_out_of_the_memory(served, peer, caplog):
    peer.share([(peer.base, 0x1000, USER, 0)])
    payload = VRING_ADDR.pack(0, 0, USER, USER + 0xFFC, USER + 0xFFC, 0)
    peer.tell(VhostRequest.SET_VRING_NUM, state(0, 256))
    peer.tell(VhostRequest.SET_VRING_ADDR, payload)
    with pytest.raises((EOFError, ConnectionResetError)):
        peer.enable(0)
    is_dropped(served, peer, caplog, "a ring outside the memory")


def test_an_unaligned_ring(served, peer, caplog):
    peer.share()
    payload = VRING_ADDR.pack(0, 0, USER + 8, USER, USER, 0)
    peer.send(VhostRequest.SET_VRING_ADDR, payload)
    is_dropped(served, peer, caplog, "not aligned")


@pytest.mark.parametrize(
    ("request_", "payload"),
    [
        (VhostRequest.SET_VRING_NUM, state(0, 8)),
        (VhostRequest.SET_VRING_BASE, state(0, 8)),
        (VhostRequest.SET_VRING_ADDR, VRING_ADDR.pack(0, 0, USER, USER, USER, 0)),
    ],
)
def test_set_up_while_it_runs(served, client, caplog, request_, payload):
    client.send(request_, payload)
    is_dropped(served, client, caplog, "while it runs")


def test_memory_changes_while_queues_run(served, client, caplog):
    with pytest.raises((EOFError, ConnectionResetError)):
        client.share()
    is_dropped(served, client, caplog, "while queues run")


NEXT, WRITE, INDIRECT = DescriptorFlag.NEXT, DescriptorFlag.WRITE, DescriptorFlag.INDIRECT
CHAINS = {
    "a loop": ([(0, 4, NEXT, 1), (0, 4, NEXT, 0)], "a loop"),
    "itself": ([(0, 0, NEXT, 0)], "a loop"),
    "many": ([(0, 4, NEXT, at + 1) for at in range(9)], "too long"),
    "next outside": ([(0, 4, NEXT, QUEUE_SIZE)], f"descriptor {QUEUE_SIZE} of"),
    "indirect": ([(0, 16, INDIRECT, 0)], "flags 0x4"),
    "long": ([(0, 1 << 31, 0, 0)], "0x80000000 bytes"),
    "long together": ([(0, 0x18000, NEXT, 1), (0, 0x18000, 0, 0)], "0x18000 bytes"),
    "outside": ([(1 << 40, 16, 0, 0)], "a buffer outside the memory"),
    "half outside": ([((1 << 20) - 8, 16, 0, 0)], "a buffer outside the memory"),
    "at the end of all": ([(2**64 - 8 - 0x100000, 16, 0, 0)], "a buffer outside the memory"),
    "read after write": ([(0, 4, NEXT | WRITE, 1), (0, 4, 0, 0)], "follows a writable one"),
}


@pytest.mark.parametrize(("chain", "why"), CHAINS.values(), ids=CHAINS)
def test_bad_chain(served, client, caplog, chain, why):
    for number, (address, length, flags, following) in enumerate(chain):
        client.commands.describe(number, client.base + address, length, flags, following)
    client.commands.offer(0)
    client.send(VhostRequest.VRING_KICK, state(COMMANDS, 0))
    is_dropped(served, client, caplog, why)
    assert not served.function.accesses[:-1]


def test_a_reply_outside_the_memory(served, client, caplog):
    client.commands.describe(1, 1 << 40, 8, WRITE)
    client.memory[0xC000:0xC010] = bytes([3, 0, 0, 0, 4]) + bytes(11)
    client.commands.describe(0, client.base + 0xC000, 16, NEXT, 1)
    client.commands.offer(0)
    client.send(VhostRequest.VRING_KICK, state(COMMANDS, 0))
    is_dropped(served, client, caplog, "a buffer outside the memory")


def test_a_head_outside_the_ring(served, client, caplog):
    client.commands.offer(QUEUE_SIZE)
    client.send(VhostRequest.VRING_KICK, state(COMMANDS, 0))
    is_dropped(served, client, caplog, f"descriptor {QUEUE_SIZE} of {QUEUE_SIZE}")


def test_more_available_than_the_ring_has(served, client, caplog):
    client.commands.offer(0, index=QUEUE_SIZE + 1)
    client.send(VhostRequest.VRING_KICK, state(COMMANDS, 0))
    is_dropped(served, client, caplog, f"{QUEUE_SIZE + 1} buffers available")


def test_a_bad_ring_for_interrupts_is_found_when_one_is_raised(served, caplog):
    """The function that raises it goes on; its front end is dropped."""
    client = served.client()
    client.write(0, 0x2000, bytes(12))
    client.write(0, 0x200C, bytes(4))
    client.config_write(0x42, b"\0\x80")
    client.interrupts.describe(0, 1 << 40, 20, WRITE)
    served.transport.interrupts.trigger(0)
    is_dropped(served, client, caplog, "a buffer outside the memory")


def test_calls_that_nobody_reads(served, client, caplog):
    """Descriptors that block or are closed are the front end's loss."""
    client.write(0, 0x2000, bytes(16))
    client.config_write(0x42, b"\0\x80")
    with contextlib.suppress(BlockingIOError):
        while os.write(client.call_end, bytes(4096)):
            pass
    served.transport.interrupts.trigger(0)
    is_dropped(served, client, caplog, "does not read its calls")


words = st.lists(
    st.sampled_from([0, 1, 2, 16, 256, 0x1000, 0x100000, USER, 2**32 - 1, 2**63, 2**64 - 1]).map(
        lambda value: value.to_bytes(8, "little")
    ),
    max_size=6,
).map(b"".join)


@relaxed
@given(
    st.lists(
        st.tuples(
            st.sampled_from([*VhostRequest, 0, 99]), st.one_of(words, st.binary(max_size=48)),
            st.integers(0, 2), st.sampled_from([VERSION, VERSION, NEED_REPLY]),
        ),
        max_size=8,
    ),
    st.booleans(),
)  # fmt: skip
def test_random_messages(served, messages, started):
    client = served.client() if started else served.connect()
    for request, payload, fds, flags in messages:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            client.send(request, payload, [client.fd] * fds, flags)
        served.step()
    client.sock.close()
    served.settle()
    again = served.client()
    assert again.read(0, 0, 4) == bytes(4)
    again.sock.close()
    served.settle()


@relaxed
@given(st.binary(min_size=64, max_size=64), st.binary(max_size=40), st.integers(0, QUEUE_SIZE))
def test_random_rings(served, descriptors, message, head):
    """Random descriptors, some of which lead to a random access."""
    client = served.client()
    where = client.commands.desc - client.base
    client.memory[where : where + len(descriptors)] = descriptors
    client.memory[0xC000 : 0xC000 + len(message)] = message
    client.commands.describe(4, client.base + 0xC000, len(message), NEXT, 5)
    client.commands.describe(5, client.base + 0xD000, 64, WRITE)
    for number in (4, head):
        client.commands.offer(number)
    with contextlib.suppress(EOFError, BrokenPipeError, ConnectionResetError):
        client.kick(COMMANDS)
        client.kick(INTERRUPTS)
    client.sock.close()
    served.settle()
    again = served.client()
    again.config_write(0, bytes(8))
    assert again.read(2, 0, 4) is not None
    again.sock.close()
    served.settle()
