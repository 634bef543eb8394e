"""A front end cannot kill the server by taking pages away from the memory that it has shared."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.hostile

ATTEMPT = """
import os, sys
from helpers.device.fake_function import FakeFunction
from emu.driver.transport.vhost_client import VhostClient
from emu.server.vhost.pcidev import COMMANDS
from emu.server.vhost.protocol import VRING_STATE, VhostRequest
from emu.server.vhost.vhost_user import VhostUserServer

function = FakeFunction()
function.config[0x34], function.config[0x40] = 0x40, 0x11
server = VhostUserServer(sys.argv[1])
server.listen(function)
client = VhostClient(sys.argv[1], lambda: server.serve(0) if server.connected else server.accept())
client.start()
os.ftruncate(client.fd, 0)
client.send(VhostRequest.VRING_KICK, VRING_STATE.pack(COMMANDS, 0))
for _ in range(10):
    server.serve(0)
sys.exit(server.connected)
"""


def test_memory_that_is_taken_away(tmp_path):
    result = subprocess.run(
        [sys.executable, "-c", ATTEMPT, str(tmp_path / "socket")],
        env={"PYTHONPATH": ":".join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert result.returncode == 0, result.stderr
    assert "has lost granted pages" in result.stderr
