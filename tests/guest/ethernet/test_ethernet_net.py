"""Ethernet functions and the world: the host's network by passt, other guests by fabric or QEMU."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from helpers.guest.datagrams import talk
from helpers.guest.guests import (
    check_tcp,
    nic,
    no_complaints_since_boot,
    on_a_fabric,
    reaches,
    run,
    running,
    with_qemus_nic,
)

from emu.guests import GuestOptions

pytestmark = pytest.mark.guest

ONE, TWO = "10.0.0.1", "10.0.0.2"
COUNT = 80
"""Datagrams of each length."""
DATA = bytes(range(251)) * 20_000

LEASE = """set -e
cat > /tmp/lease <<'END'
#!/bin/sh
[ "$1" = bound ] || exit 0
ip address add $ip/${mask:-24} dev $interface
ip route add default via $router
echo $dns > /tmp/dns
END
chmod +x /tmp/lease
ip link set NAME up
busybox udhcpc -i NAME -n -q -t 20 -s /tmp/lease
"""
FETCH = """
import hashlib, urllib.request
data = urllib.request.urlopen("http://{}:{}/", timeout=200).read()
print(len(data), hashlib.sha256(data).hexdigest())
"""


ASK = """
import socket, struct, sys
family = socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET
question = b"\\x09localhost\\0" + struct.pack(">HH", 1, 1)
with socket.socket(family, socket.SOCK_DGRAM) as one:
    one.settimeout(5)
    for number in range(3):
        one.sendto(struct.pack(">HHHHHH", number, 0x100, 1, 0, 0, 0) + question, (sys.argv[1], 53))
        try:
            answered, flags = struct.unpack(">HH", one.recv(512)[:4])
        except OSError:
            continue
        sys.exit(not (answered == number and flags & 0x8000))
sys.exit(1)
"""
"""Argument: a resolver, which is asked for an address of localhost; any answer will do."""


class Answer(BaseHTTPRequestHandler):
    """The data, whatever is asked for."""

    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", str(len(DATA)))
        self.end_headers()
        self.wfile.write(DATA)

    def log_message(self, *_):
        pass


@contextmanager
def served():
    """A web server on the host's loopback; gives its port."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Answer) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_address[1]
        server.shutdown()


@pytest.fixture(scope="module")
def outward(lab, suite):
    """A guest with an address of the host's network."""
    if shutil.which("passt") is None:
        pytest.skip("passt is not installed")
    options = GuestOptions(suite=suite, devices=("connectx6dx",), server_options=("--net", "user"))
    guest = lab.get(options)
    run(guest, LEASE.replace("NAME", nic(guest)))
    yield guest
    no_complaints_since_boot(guest)


def test_the_hosts_network_by_passt(outward):
    (route,) = json.loads(run(outward, "ip -j route show default"))
    with served() as port:
        fetch = FETCH.format(route["gateway"], port)
        size, digest = run(outward, ["python3", "-c", fetch]).split()
    assert (int(size), digest) == (len(DATA), hashlib.sha256(DATA).hexdigest())


def test_names_by_passt(outward):
    """The host's resolver, whose address comes by DHCP, answers."""
    found = re.findall(r"^nameserver (\S+)", Path("/etc/resolv.conf").read_text(), re.M)
    if not any(subprocess.run(["python3", "-c", ASK, one]).returncode == 0 for one in found):
        pytest.skip("the host has no resolver that answers")
    (server, *_) = run(outward, "cat /tmp/dns").split()
    run(outward, ["python3", "-c", ASK, server])


@pytest.fixture(scope="module", params=[on_a_fabric, with_qemus_nic], ids=["fabric", "stream"])
def guests(lab, suite, request, tmp_path_factory):
    """Two guests whose interfaces are up, and can hear each other."""
    with running(*request.param(suite, tmp_path_factory.mktemp("net") / "socket")) as found:
        for guest, address in zip(found, (ONE, TWO)):
            name = nic(guest)
            run(guest, f"ip address add {address}/24 dev {name}; ip link set {name} up")
        reaches(found[0], TWO)
        yield found
        no_complaints_since_boot(*found)


def test_ping(guests):
    for guest, to in zip(guests, (TWO, ONE)):
        for size in (56, 1472, 20_000):
            run(guest, f"for _ in 1 2 3; do ping -c 1 -W 5 -s {size} {to} || exit 1; done")


def test_tcp(guests):
    """Super-frames included."""
    one, two = guests
    check_tcp(one, two, TWO)


def test_udp(guests):
    """Datagrams of a whole MTU, there and back; few had to be sent again."""
    one, two = guests
    assert talk(one, two, TWO, (1400,), COUNT)[1400] < 1.1 * COUNT
