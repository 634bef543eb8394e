"""Finding libvfio-user, and what is special about serving through it."""

import select

import pytest

from emu.server.vfio import libvfio_abi
from emu.server.vfio.base import TransportError
from emu.server.vfio.kinds import make_transport
from emu.server.vfio.protocol import HEADER, REGION_ACCESS, MessageFlag, RegionIndex, VfioCommand


@pytest.fixture
def library(serve):
    return serve("libvfio-user")


def test_it_is_there(library):
    """Skipped, like the other transport's share of every test here, where the library is absent."""
    library.client().device_info()


@pytest.mark.parametrize("path", ["/nonexistent/libvfio-user.so", "libc.so.6", "/dev/null"])
def test_a_wrong_library_is_a_clear_error(monkeypatch, tmp_path, path):
    monkeypatch.setenv(libvfio_abi.LIBRARY_VARIABLE, path)
    with pytest.raises(TransportError, match=libvfio_abi.LIBRARY_VARIABLE):
        make_transport("libvfio-user", tmp_path / "socket")


def test_an_absent_library_is_a_clear_error(monkeypatch, tmp_path):
    monkeypatch.delenv(libvfio_abi.LIBRARY_VARIABLE, raising=False)
    monkeypatch.setattr(libvfio_abi, "_SONAME", "libno-such-thing.so.0")
    monkeypatch.setattr("ctypes.util.find_library", lambda name: None)
    with pytest.raises(TransportError, match="libno-such-thing"):
        make_transport("libvfio-user", tmp_path / "socket")


def test_a_function_it_cannot_offer(library, tmp_path):
    """It wants BARs of a power of two."""
    other = make_transport("libvfio-user", tmp_path / "other")
    library.function.bar_sizes = (3000, 0, 0, 0, 0, 0)
    with pytest.raises(TransportError, match="vfu_setup_region"):
        other.listen(library.function)
    other.close()


def test_a_silent_client_does_not_hold_us_up(library):
    library.connect()
    library.step()
    library.step()
    assert library.transport.connected


def test_a_message_in_pieces_ends_the_connection(library, caplog):
    """The library would read it short and lose its place in the stream."""
    client = library.client()
    payload = REGION_ACCESS.pack(0, 0, 4)
    client.send_raw(HEADER.pack(1, VfioCommand.REGION_READ, HEADER.size + len(payload), 0, 0))
    library.settle()
    assert "cannot wait" in caplog.text
    library.client().device_info()


def test_garbage_ends_the_connection(library):
    client = library.client()
    client.send_raw(b"\xff" * 64)
    library.settle()
    with pytest.raises((EOFError, ConnectionResetError)):
        client.receive()
    library.client().device_info()


def test_twin_socket_is_passed_on(library):
    """The library may answer VERSION with a descriptor; the client gets it."""
    client = library.connect()
    agreed = client.negotiate({"max_msg_fds": 1, "twin_socket": {"supported": True}})
    assert agreed["twin_socket"]["supported"]
    client.device_info()


def calls_of(library):
    """Appends to the list that it returns whenever the library handles a message."""
    done, context = [], library.transport._context
    run = context.run
    context.run = lambda: done.append(1) or run()
    return done


@pytest.mark.hostile
@pytest.mark.parametrize(
    ("region", "command", "data", "most"),
    [
        (0, VfioCommand.REGION_WRITE, b"12345678", 500),
        (0, VfioCommand.REGION_READ, b"", 5),
        (RegionIndex.CONFIG, VfioCommand.REGION_WRITE, b"1234", 100),
        (None, VfioCommand.DEVICE_RESET, b"", 100),
    ],
    ids=["doorbells", "long reads", "configuration", "resets"],
)
def test_a_flood_is_done_turn_by_turn(library, region, command, data, most):
    """By its cost, as in our own server: others are served in between."""
    client = library.client()
    count = len(data) or 4096
    payload = b"" if region is None else REGION_ACCESS.pack(0, region, count) + data
    flags = 0 if command == VfioCommand.REGION_READ else MessageFlag.NO_REPLY
    size = HEADER.size + len(payload)
    client.send_raw((HEADER.pack(1, command, size, flags, 0) + payload) * 600)
    done, turns = calls_of(library), []
    while sum(turns) < 600:
        before = len(done)
        library.step()
        turns.append(len(done) - before)
        while select.select([client.sock], [], [], 0)[0]:
            client.sock.recv(1 << 20)
    assert max(turns) <= most


def test_a_client_that_does_not_read_is_dropped(library):
    """The library sends its replies itself and waits for room: everybody else waits as well."""
    client = library.client()
    request = REGION_ACCESS.pack(0, 0, 1 << 16)
    header = HEADER.pack(1, VfioCommand.REGION_READ, HEADER.size + len(request), 0, 0)
    client.send_raw((header + request) * 100)
    library.settle()
    assert len(library.function.accesses) < 100
    library.client().device_info()
