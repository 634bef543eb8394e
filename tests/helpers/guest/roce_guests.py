"""RoCE in guests: addresses, a network namespace for the second port, programs of librdmacm."""

from __future__ import annotations

from helpers.guest.guests import SECONDS, run

ONE, TWO = "10.0.0.1", "10.0.0.2"
GID_OF_IPV4, GID_OF_IPV4_V1 = 3, 2
"""For RoCE v2 and v1. Each address has two GIDs, v1 first; the default address, which the driver
makes of the MAC address, comes before this one."""
SOFT_GID_OF_IPV4 = 1
"""Soft-RoCE has no v1."""

CM_LISTENS = "until {inside} rdma resource show cm_id | grep -q LISTEN; do sleep 0.1; done"
"""Programs of librdmacm take no port of the kernel's TCP; ``rdma`` tells of their identifiers."""
UP = """set -e
ip address add {address}/24 dev {nic}
ip link set {nic} mtu 4200 up
until ip link show {nic} | grep -q LOWER_UP; do sleep 0.1; done
for gid in /sys/class/net/{nic}/device/infiniband/mlx5_*/ports/1/gids/0; do
    [ -e $gid ] || continue
    there=$(printf %02x%02x:%02x%02x $(echo {address} | tr . " "))
    for _ in $(seq 100); do
        ! grep -q $there $(dirname $gid)/* || break
        sleep 0.1
    done
done
"""
"""The address has its GIDs then, where the interface has an RDMA device."""
SOFT_ROCE = f"""set -e
modprobe rdma_rxe
rdma link add rxe0 type rxe netdev {{nic}}
until grep -q ffff: /sys/class/infiniband/rxe0/ports/1/gids/{SOFT_GID_OF_IPV4}; do sleep 0.1; done
"""
NAMESPACES = f"""set -e
rdma system set netns exclusive
ip netns add peer
ip link set eth1 netns peer
rdma dev set mlx5_1 netns peer
ip -n peer link set lo up
ip netns exec peer sh -c '{UP.format(address=TWO, nic="eth1")}'
"""


def gid_of(device):
    """The index of a device's GID of RoCE v2 with an IPv4 address."""
    return SOFT_GID_OF_IPV4 if device.startswith("rxe") else GID_OF_IPV4


def by_address(server, client, commands, to, inside=""):
    """A program of librdmacm on both sides; the client's begins when the server's listens."""
    listen, connect = (command.format(to=to) for command in commands)
    job = server.popen(f"exec {inside} timeout 100 {listen}")
    run(server, f"timeout 60 sh -c '{CM_LISTENS.format(inside=inside)}'")
    run(client, f"timeout 100 {connect}")
    assert server.wait(job, timeout=SECONDS) == 0
