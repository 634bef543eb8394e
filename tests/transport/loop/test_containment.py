"""Mistakes of our own outside any function: they cost a client or a peer, not the server."""

import contextlib
import json
import socket
from dataclasses import replace

import pytest

from emu.device.port.ib.endport import end_port
from emu.driver.transport.fabric import Fabric
from emu.driver.transport.raw_peer import RawPeer
from emu.driver.transport.vfio_client import VfioRefusedError
from emu.server.control import protocol
from emu.server.control.server import ControlServer
from emu.server.net.fabric import port_frames
from emu.server.net.fabric import protocol as fabric_protocol
from emu.server.net.fabric.connection import FabricConnection
from emu.server.net.fabric.protocol import FrameKind, Identity
from emu.server.vfio.loop import Loop
from emu.server.vfio.protocol import RegionIndex, VfioCommand

PAGE = 4096
GONE = (EOFError, ConnectionError, VfioRefusedError)
"""libvfio-user says EIO first."""


def port_of(hub, member):
    """A port that a member has, like the hub's."""
    (identity,) = member.identities
    port = end_port(hub.node.hca.port)
    return replace(port, lid=identity.lid, port_guid=identity.guid)


class Mistake(Exception):  # noqa: N818  # what it is
    """Nobody expects it."""


@pytest.fixture
def told(caplog):
    """Checks that one traceback was logged, and clears the log."""

    def check():
        records = [record for record in caplog.records if record.exc_info]
        assert [record.exc_info[0] for record in records] == [Mistake]
        caplog.clear()

    return check


@pytest.fixture
def blunder(monkeypatch):
    """Makes the next call of something raise."""

    def arrange(where, name):
        original = getattr(where, name)

        def mistaken(*_args, **_options):
            monkeypatch.setattr(where, name, original)
            raise Mistake(name)

        monkeypatch.setattr(where, name, mistaken)

    return arrange


class TestClient:
    """The client of a function's socket: it is dropped, and the next one is served."""

    @pytest.fixture
    def client(self, served, loop):
        """Its server is stepped by the loop."""

        def connect():
            client = served.client()
            client._step = lambda: loop.step(0)
            return client

        return connect

    def test_memory(self, served, client, blunder, told):
        ram, first = served.ram(PAGE), client()
        blunder(served.memory, "map")
        with contextlib.suppress(*GONE):  # libvfio-user replies before
            first.dma_map(0, PAGE, fd=ram.fd)
        assert not served.transport.connected
        told()
        assert served.function.resets == 1
        second = client()
        second.dma_map(0, PAGE, fd=ram.fd)
        second.device_info()
        served.memory.read(0, PAGE)

    @pytest.mark.parametrize("region", [0, RegionIndex.CONFIG])
    @pytest.mark.parametrize("way", ["read", "write"])
    def test_access(self, served, client, blunder, told, region, way):
        blunder(served.function, f"{'config' if region == RegionIndex.CONFIG else 'bar'}_{way}")
        with pytest.raises(GONE):
            getattr(client(), way)(region, 0, 4 if way == "read" else b"1234")
        told()
        assert client().read(region, 0, 4) == bytes(4)

    def test_reset(self, served, client, blunder, told):
        blunder(served.function, "reset")
        with pytest.raises(GONE):
            client().call(VfioCommand.DEVICE_RESET)
        told()
        assert served.function.resets == 1
        client().device_info()

    def test_its_end(self, served, client, blunder, told, loop):
        blunder(served.memory, "clear")
        client().close()
        for _ in range(10):
            loop.step(0)
        told()
        client().device_info()


class TestControl:
    """A client of the control socket."""

    @pytest.fixture
    def ask(self, tmp_path):
        """What a new client hears when it asks for something."""
        loop = Loop()
        server = ControlServer(tmp_path / "control", loop, {"status": lambda _params: {}})
        with contextlib.ExitStack() as stack:

            def ask(before=lambda: None):
                sock = stack.enter_context(socket.socket(socket.AF_UNIX))
                sock.connect(str(tmp_path / "control"))
                for _ in range(3):
                    loop.step(0)
                before()
                sock.sendall(b'{"id":1,"method":"status"}\n')
                for _ in range(3):
                    loop.step(0)
                sock.setblocking(False)
                return sock.recv(1 << 16).splitlines()[1:]

            yield ask
        server.close()
        loop.close()

    @pytest.mark.parametrize("name", ["decode", "request"])
    def test_request(self, ask, blunder, told, name):
        assert not ask(before=lambda: blunder(protocol, name))
        told()
        assert json.loads(ask()[0]) == {"id": 1, "result": {}}

    def test_arrival(self, ask, blunder, told):
        blunder(protocol, "encode")
        ask()
        told()
        assert json.loads(ask()[0]) == {"id": 1, "result": {}}


class TestFabric:
    """A member of a fabric whose hub we are."""

    @pytest.fixture
    def fabric(self, tmp_path):
        with Fabric(f"unix:{tmp_path}/fabric") as fabric:
            yield fabric

    @pytest.fixture
    def hub(self, fabric):
        """It goes on with other members after each test."""
        hub = fabric.join()
        yield hub
        member = fabric.join()
        fabric.until(lambda: hub.wire.needs_packets(member.node.lid, None))

    def test_frame(self, fabric, hub, blunder, told):
        member = RawPeer.member(fabric)
        blunder(hub.wire.election.role, "_take_port")
        member.say(FrameKind.PORT, port_frames.port(port_of(hub, member)))
        assert member.is_dropped()
        told()

    def test_timer(self, fabric, hub, blunder, told):
        """Frames are written by a timer."""
        peer = RawPeer.connected(fabric)
        blunder(FabricConnection, "_written")
        peer.say(FrameKind.HELLO, fabric_protocol.hello([Identity()]))
        assert peer.is_dropped()
        told()

    def test_what_belongs_to_nobody(self, fabric, hub, blunder, told):
        """The news of the ports is for all members."""
        member = RawPeer.member(fabric)
        blunder(hub.wire, "ports_changed")
        member.say(FrameKind.PORT, port_frames.port(port_of(hub, member)))
        fabric.settle()
        told()
