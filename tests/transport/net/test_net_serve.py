"""``mlx5emu serve --net``: the links exist when it is ready, and nothing of them stays behind."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from helpers.net.segment import Peer, ethernet

from emu.host.process_identity import module_command
from emu.version import code_line

DEVICE = "connectx6dx,link=eth"


def serve(tmp_path, *options):
    command = [*module_command("emu"), "serve", "--socket", str(tmp_path / "function0")]
    return subprocess.Popen(
        [*command, "--device", DEVICE, *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )


def test_a_stream(tmp_path):
    path = tmp_path / "net"
    with serve(tmp_path, "--net", f"stream={path}") as process:
        assert "ready" in [process.stdout.readline().strip() for _ in range(2)]
        peer = Peer(path)
        peer.send(ethernet(b"\xff" * 6, b"\x02\0\0\0\0\1", 0x88B5))
        peer.close()
        process.terminate()
        assert process.wait(20) == 0
        assert process.stderr.read() == f"device code: {code_line()}\n"
    assert not path.exists()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--net", "ether"], "user, stream=PATH or tap=NAME"),
        (["--net", "stream=/nonexistent/net"], "/nonexistent/net"),
        (["--net", "tap=a/b"], "a name has 1 to 15 bytes"),
    ],
)
def test_a_link_that_cannot_be_made(tmp_path, options, said):
    with serve(tmp_path, *options) as process:
        assert process.wait(20) == 2
        error = process.stderr.read()
    assert said in error
    assert len(error.splitlines()) == 1


def test_without_passt(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent))
    with serve(tmp_path, "--net", "user") as process:
        assert process.wait(20) == 2
        assert "apt-get install passt" in process.stderr.read()
