"""One program ends alike with and without packets: two functions, then a link between them.

``tests/device/traffic/test_alike.py`` has the whole list.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from helpers.guest.kernel_log import KernelLog

from emu.guests import GuestOptions
from emu.server.control import Client

pytestmark = pytest.mark.guest

PROGRAM = Path(__file__).parents[1] / "inside" / "alike.py"
SECONDS = 300
FUNCTION = "connectx6-vf,pkeys=0x8001:2"
OK, FLUSHED, BAD_RESP, INVALID, RETRIES = 0, 5, 7, 9, 12
"""enum ibv_wc_status."""
ENDS = {
    "right": [OK, OK, OK],
    "another partition": [RETRIES, FLUSHED],
    "the same partition": [OK, OK],
    "two limited members": [RETRIES, FLUSHED],
    "empty P_Key": [RETRIES, FLUSHED],
    "unequal MTUs": [OK, INVALID],
    "READ, unequal MTUs": [BAD_RESP],
    "GRH": [OK, OK],
    "GRH of one": [RETRIES, FLUSHED],
    "wrong GID": [RETRIES, FLUSHED],
    "wrong number": [RETRIES, FLUSHED],
    "wrong PSN": [RETRIES, FLUSHED],
    "many READs": [INVALID],
    "UC": [OK, OK],
    "UC, another partition": [OK, OK],
}


def ends(guest):
    found = {}
    for line in guest.run("python3 /tmp/alike.py", timeout=SECONDS).check().stdout.splitlines():
        name, *statuses = line.split(": ")
        found[name] = [*map(int, statuses)]
    failed = [one for one in found["many READs"] if one not in (OK, FLUSHED)]
    return found | {"many READs": failed}  # how many succeed before is a matter of time


def test_with_and_without_a_link(lab, suite):
    guest = lab.get(GuestOptions(suite=suite, devices=(FUNCTION, FUNCTION)))
    guest.run("cat > /tmp/alike.py", stdin=PROGRAM.read_bytes()).check()
    log = KernelLog(guest)
    assert ends(guest) == ENDS
    with Client(guest.control_socket) as control:
        control.set_link(delay="1us")
        try:
            assert ends(guest) == ENDS
        finally:
            control.set_link()
    assert log.complaints() == []
