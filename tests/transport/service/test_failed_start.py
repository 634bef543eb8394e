"""A server that cannot start leaves nothing behind that it has made: no sockets, no descriptors."""

import gc
import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from emu.host.user_error import UserError
from emu.server.net.eth.spec import parse as parse_net
from emu.server.service.devicespec import parse_all
from emu.server.service.endpoints import ServedDevice
from emu.server.service.fault_options import FaultOptions
from emu.server.service.pcap import PcapOptions
from emu.server.service.server import Server
from emu.server.vfio.base import TransportError


def descriptors():
    """Return how many descriptors of each file this process has open."""
    gc.collect()  # objects of earlier tests may have some
    found = []
    for path in Path("/proc/self/fd").iterdir():
        try:
            found.append(os.readlink(path))
        except FileNotFoundError:  # that of the directory itself
            continue
    return Counter(one for one in found if not one.startswith("/proc/"))


@pytest.fixture
def start(tmp_path):
    def server(*, taken="", **options):
        """Start a server with everything that has a socket; ``taken`` is the path of a file."""
        if taken:
            (tmp_path / taken).write_text("not a socket")
        devices = parse_all(["connectx6dx", "connectx6"], fabric=True)
        endpoints = [*map(ServedDevice, (tmp_path / "one", tmp_path / "two"), devices)]
        given = {
            "fabric": f"unix:{tmp_path}/fabric",
            "nets": [parse_net(f"stream={tmp_path}/stream")],
            "control": tmp_path / "control",
        }
        return Server(endpoints, **given | options)

    return server


REASONS: dict[str, tuple[dict[str, Any], str]] = {
    "the fabric's address is a file": (
        {"taken": "fabric"}, "exists and is not a socket"
    ),
    "the second socket's path is a file": (
        {"taken": "two"}, "two: exists and is not a socket"
    ),
    "the path of an uplink is a file": (
        {"taken": "stream"}, "exists and is not a socket"
    ),
    "the second uplink's path is that of the first": (
        {"nets": 2}, "another process listens at this path"
    ),
    "the capture has no directory": (
        {"pcap": PcapOptions(Path("/nowhere/capture"))}, "No such file"
    ),
    "the record has no directory": (
        {"faults": FaultOptions(record=Path("/nowhere/record"))}, "No such file"
    ),
    "the control socket's path is a file": (
        {"taken": "control"}, "exists and is not a socket"
    ),
}  # fmt: skip


@pytest.mark.parametrize("reason", REASONS)
def test_nothing_is_left(start, tmp_path, reason):
    options, why = REASONS[reason]
    if "nets" in options:
        options = {"nets": [parse_net(f"stream={tmp_path}/stream")] * options["nets"]}
    taken = options.get("taken")
    before = descriptors()
    with pytest.raises((TransportError, UserError, OSError), match=why):
        start(**options)
    assert descriptors() <= before
    assert {path.name for path in tmp_path.iterdir()} <= {taken, "fabric.lock"}
    if taken:
        (tmp_path / taken).unlink()
    start().close()
    assert descriptors() <= before
