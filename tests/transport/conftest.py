"""A fake function served by each transport, and fabrics; all stepped by the test itself."""

from __future__ import annotations

import contextlib
import socket

import pytest
from helpers.device.fake_function import FakeFunction
from helpers.net.stepped import Stepped

from emu.driver.transport.fabric import Fabric
from emu.driver.transport.guest_ram import GuestRam
from emu.driver.transport.vfio_client import VfioClient
from emu.server.vfio.base import TransportError
from emu.server.vfio.kinds import DEFAULT_KIND, KINDS, make_transport
from emu.server.vfio.libvfio_abi import load_library
from emu.server.vfio.loop import Loop

try:
    load_library()
except TransportError as error:
    MISSING, USABLE_KINDS = str(error), [DEFAULT_KIND]
else:
    MISSING, USABLE_KINDS = "", KINDS


class Served(Stepped):
    """A transport with a function behind it, and clients for it."""

    def __init__(self, kind, path, function=None, **options):
        self.kind = kind
        self.path = path
        super().__init__(make_transport(kind, path, **options), function or FakeFunction())
        self.memory = self.transport.memory
        self.interrupts = self.transport.interrupts

    @property
    def own(self):
        return self.kind == "vfio-user"

    def connect(self):
        """A client that has not said anything yet."""
        client = VfioClient(self.path, self.step)
        self._cleanup.callback(client.close)
        return client

    def client(self):
        """A client that has negotiated."""
        client = self.connect()
        client.negotiate()
        return client

    def ram(self, size, **options):
        ram = GuestRam(size, **options)
        self._cleanup.callback(ram.close)
        return ram


@pytest.fixture
def serve(tmp_path):
    """Makes transports by kind and closes them afterwards."""
    with contextlib.ExitStack() as cleanup:

        def make(kind, path=None, **options):
            if kind not in USABLE_KINDS:
                pytest.skip(MISSING)
            served = Served(kind, path or tmp_path / f"{kind}.sock", **options)
            cleanup.callback(served.close)
            return served

        yield make


@pytest.fixture(params=USABLE_KINDS)
def kind(request):
    """Each transport; test_libvfio_user says when there is only one."""
    return request.param


@pytest.fixture
def served(kind, serve):
    """The same test with each transport."""
    return serve(kind)


@pytest.fixture
def loop(served):
    """A loop that drives it."""
    loop = Loop()
    loop.add_transport(served.transport)
    yield loop
    loop.remove_transport(served.transport)
    loop.close()


@pytest.fixture
def client(served):
    return served.client()


@pytest.fixture
def own(serve):
    """Our own server, for what libvfio-user answers differently or not at all."""
    return serve("vfio-user")


@pytest.fixture
def own_client(own):
    return own.client()


@pytest.fixture(params=["unix", "tcp"])
def name(request, tmp_path):
    """What a fabric is called."""
    if request.param == "unix":
        return f"unix:{tmp_path}/fabric"
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"tcp:127.0.0.1:{free.getsockname()[1]}"


@pytest.fixture
def fabric(name):
    """A fabric without members."""
    with Fabric(name) as lab:
        yield lab
