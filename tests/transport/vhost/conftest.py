"""A fake function on a vhost-user socket, stepped by the test itself, and front ends for it."""

import contextlib
import struct

import pytest
from helpers.device.fake_function import FakeFunction
from helpers.net.stepped import Stepped

from emu.driver.transport.vhost_client import VhostClient
from emu.server.vhost.vhost_user import VhostUserServer

CAPABILITY, TABLE, PBA = 0x40, 0x2000, 0x3000


def function_with_msix():
    """A fake function whose configuration space describes its vectors."""
    function = FakeFunction()
    function.config[0x34] = CAPABILITY
    struct.pack_into(
        "<BBHII", function.config, CAPABILITY, 0x11, 0, function.msix_vectors - 1, TABLE, PBA
    )
    return function


class Served(Stepped):
    """The transport with its function, and front ends for it."""

    def __init__(self, path):
        self.path = path
        super().__init__(VhostUserServer(path), function_with_msix())
        self.function.accesses.clear()

    def connect(self, **options):
        """A front end that has not said anything yet."""
        client = VhostClient(self.path, self.step, **options)
        self._cleanup.callback(client.close)
        return client

    def client(self):
        """One whose queues run."""
        client = self.connect()
        client.start()
        self.function.accesses.clear()
        return client


@pytest.fixture
def served(tmp_path):
    with contextlib.closing(Served(tmp_path / "socket")) as served:
        yield served


@pytest.fixture
def client(served):
    return served.client()
