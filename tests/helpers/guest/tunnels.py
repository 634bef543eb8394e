"""Tunnels of tc's rules between a function behind the switch and a peer behind its cable."""

from __future__ import annotations

from contextlib import contextmanager
from typing import NamedTuple

from helpers.guest.guests import reaches, run
from helpers.guest.sub_functions import clear, redirect

INSIDE = "10.0.5.9"
"""The peer's address at its end of a tunnel."""


class Kind(NamedTuple):
    """A kind of tunnel."""

    interface: str
    """As ``ip link`` names it."""
    port: str = ""
    six: bool = False
    """Whether it goes over IPv6."""


KINDS = {
    "vxlan": Kind("vxlan dstport 4789", "4789"),
    "vxlan over IPv6": Kind("vxlan dstport 4789", "4789", six=True),
    "geneve": Kind("geneve dstport 6081", "6081"),
    "geneve over IPv6": Kind("geneve dstport 6081", "6081", six=True),
    "gretap": Kind("gretap"),
}


@contextmanager
def tunnel_ends(guest):
    """Give the uplink's interface and the peer addresses, and take them away at the end."""
    both = [("", "eth0", 1), ("-n peer", "eth1", 2)]
    for inside, device, end in both:
        run(guest, f"ip {inside} address add 10.9.9.{end}/24 dev {device}")
        run(guest, f"ip {inside} address add fd00::{end}/64 dev {device} nodad")
    try:
        for address in ("10.9.9.2", "fd00::2"):
            reaches(guest, address)
        yield
    finally:
        for inside, device, end in both:
            run(guest, f"ip {inside} address del 10.9.9.{end}/24 dev {device}")
            run(guest, f"ip {inside} address del fd00::{end}/64 dev {device}")


@contextmanager
def tunnel(guest, sf, kind, there=None):
    """A tunnel of this kind, which ends whatever becomes of it."""
    made = Tunnel(guest, sf, kind, there)
    try:
        yield made
    finally:
        made.end()


class Tunnel:
    """From a sub-function by rules of tc to the peer's interface ``tp``; its key is 42."""

    def __init__(self, guest, sf, kind, there=None):
        """``there`` is the peer's outer address, when it is another one than that of its cable."""
        self.guest, self.sf = guest, sf
        here, far = ("fd00::1", "fd00::2") if kind.six else ("10.9.9.1", "10.9.9.2")
        run(guest, f"ip link add t0 type {kind.interface} external; ip link set t0 up")
        self._peer(kind, here, far)
        sf.run(f"ip address replace 10.0.5.1/24 dev {sf.name}")
        sf.run(f"ip neigh flush to {INSIDE}")  # of the peer's end of an earlier tunnel
        port = f"dst_port {kind.port}" if kind.port else ""
        into = f"src_ip {here} dst_ip {there or far} id 42 {port} nocsum"
        for number, protocol in enumerate(("ip", "arp"), 1):
            rule = f"protocol {protocol} prio {number} flower skip_sw"
            redirect(guest, sf.representor, "t0", f"action tunnel_key set {into} pipe", rule)
        out = f"enc_dst_ip {here} enc_src_ip {far} enc_key_id 42 enc_{port}".removesuffix("enc_")
        # The kernel has no skip_sw for the rules of a tunnel's interface.
        rule = "protocol all flower"
        redirect(guest, "t0", sf.representor, f"{out} action tunnel_key unset", rule)

    def _peer(self, kind, here, far):
        name, _, more = kind.interface.partition(" ")
        ends = f"id 42 remote {here} {more}"
        if kind.six:
            # As on a real adapter, UDP has no checksum in what the switch puts around a packet.
            ends += " udp6zerocsumrx"
        if name == "gretap":
            ends = f"local {far} remote {here} key 42"
        run(self.guest, f"ip -n peer link add tp type {name} {ends}")
        run(
            self.guest,
            f"ip -n peer link set tp up mtu 1400; ip -n peer address add {INSIDE}/24 dev tp",
        )

    def reaches(self):
        self.sf.run(f"ping -c 3 -i 0.2 -W 20 {INSIDE}")

    def fails(self):
        self.sf.run(f"sh -c '! ping -q -c 2 -W 1 {INSIDE}'")

    def end(self):
        clear(self.guest, self.sf.representor)
        run(self.guest, "ip link del t0; ip -n peer link del tp")
