"""Virtual functions in a guest: by sysfs, and in namespaces of their own."""

from __future__ import annotations

from helpers.guest.guests import run

PF = "/sys/bus/pci/devices/0000:01:00.0"
_COMING = f"""
for _ in $(seq 600); do
    [ $(ls -d {PF}/virtfn*/infiniband/* 2>/dev/null | wc -l) = %(count)d ] &&
    [ $(ls -d {PF}/virtfn*/net/* 2>/dev/null | wc -l) -ge %(interfaces)d ] && exit 0
    sleep 0.1
done
ls -d {PF}/virtfn*/*/*; exit 1
"""


def enable(guest, count, interfaces=None):
    """Enable VFs; wait for the RDMA device of each, and for its interface with Ethernet."""
    run(guest, f"echo {count} > {PF}/sriov_numvfs")
    come(guest, count, interfaces)


def come(guest, count, interfaces=None):
    """Wait for the devices of VFs that are enabled."""
    interfaces = count if interfaces is None else interfaces
    run(guest, _COMING % {"count": count, "interfaces": interfaces})


def follow_the_port(guest, count):
    """Bring up the InfiniBand ports of VFs, which are down until their policy is set."""
    run(guest, "modprobe ib_ipoib")
    pf = interface(guest)
    for number in range(count):
        run(guest, f"ip link set {pf} vf {number} state auto")


def disable(guest):
    """Disable all VFs; their devices are gone."""
    run(guest, f"echo 0 > {PF}/sriov_numvfs; ! ls -d {PF}/virtfn*")


def interface(guest, number=None):
    """The interface of the PF, or of a VF from 0 on, once it is there."""
    return _device(guest, number, "net")


def rdma(guest, number=None):
    """The RDMA device of the PF, or of a VF from 0 on, once it is there."""
    return _device(guest, number, "infiniband")


def _device(guest, number, kind):
    place = f"{_place(number)}/{kind}"
    waiting = f"until ls {place}/*; do sleep 0.1; done >/dev/null 2>&1"
    return run(guest, f"{waiting}; ls {place}").strip()


def address(number):
    """The PCI address of a VF, from 0 on."""
    return f"0000:01:{(number + 1) >> 3:02x}.{(number + 1) & 7}"


def _place(number):
    return PF if number is None else f"{PF}/virtfn{number}"


def in_namespaces(guest, count):
    """Give the PF 10.0.0.100, and VF n 10.0.0.n in a namespace vfN; bring all of them up."""
    pf = interface(guest)
    run(guest, f"ip address replace 10.0.0.100/24 dev {pf}; ip link set {pf} up")
    for number in range(count):
        name = interface(guest, number)
        run(
            guest,
            f"ip netns add vf{number}; ip link set {name} netns vf{number}"
            f" && ip -n vf{number} address add 10.0.0.{number + 1}/24 dev {name}"
            f" && ip -n vf{number} link set {name} up",
        )


def out_of_namespaces(guest):
    """Delete the namespaces, which gives the interfaces back."""
    run(guest, "ip -all netns delete; ip address flush to 10.0.0.0/24")


_NEIGHBORS = """
for name in %(one)s %(other)s; do
    until ip -6 address show $name -tentative | grep -q fe80; do sleep 0.1; done
done
link_local() { ip -6 -o address show $1 scope link | sed 's/.* \\(fe80[^/]*\\).*/\\1/'; }
until ping -c 1 -W 1 -I %(one)s $(link_local %(other)s); do sleep 0.1; done
until ping -c 1 -W 1 -I %(other)s $(link_local %(one)s); do sleep 0.1; done
"""


def are_neighbors(guest, one, other):
    """Wait until two interfaces reach each other's link-local address, hence their GIDs.

    A neighbor answers once its address is known to be unique. The modification of a queue pair to
    RTR waits one second for an answer (core/addr.c: rdma_addr_find_l2_eth_by_grh).
    """
    run(guest, _NEIGHBORS % {"one": one, "other": other})


def pingpong(guest, server, client, more=""):
    """Messages by RC between two RDMA devices of the guest, both ways."""
    run(
        guest,
        f"ibv_rc_pingpong -d {server} {more} -n 100 > /tmp/pong & "
        "until ss -ltn | grep -q :18515; do sleep 0.1; done; "
        f"ibv_rc_pingpong -d {client} {more} -n 100 127.0.0.1 && wait && grep -q 100 /tmp/pong",
    )
