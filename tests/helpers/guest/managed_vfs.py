"""Virtual functions of a guest's physical function, each in a network namespace of its own."""

from __future__ import annotations

import json
import re
from contextlib import contextmanager

from emu.guests import GuestOptions
from helpers.guest.guests import FEW_KEYS, prepared, run, two_namespaces
from helpers.guest.virtual_functions import PF, enable, interface

DEV = "pci/0000:01:00.0"
HERE, PEER = "10.0.7.100", "10.0.7.200"
"""Addresses of the physical function, and of what is behind its cable."""
SAYS = re.compile(
    r"MPFS/FDB active|Dropping C-tag|S-tagged traffic|Disabling|not supported in switchdev"
)
"""Lines of the driver about its tables, and about offloads that switchdev mode lacks."""


@contextmanager
def with_peer(lab, suite, **more):
    """A guest whose first function has two VFs; the second, in a namespace, is behind its cable.

    ``more``: other options of the guest.
    """
    options = GuestOptions(
        suite=suite, devices=("connectx6dx,vfs=2", "connectx6dx"), memory_mib=2048,
        kernel_arguments=FEW_KEYS, **more,
    )  # fmt: skip
    down = f"echo 0 > {PF}/sriov_numvfs; ip netns del peer; ip address flush dev eth0"
    with prepared(lab, options, two_namespaces("eth0", "eth1", HERE, PEER), down) as guest:
        enable(guest, 2)
        yield guest


def set_mode(guest, name):
    run(guest, f"devlink dev eswitch set {DEV} mode {name}")


def ports(guest):
    """The devlink ports of virtual functions, by name."""
    found = json.loads(run(guest, "devlink port show -j"))["port"]
    return {name: told for name, told in found.items() if told["flavour"] == "pcivf"}


@contextmanager
def switched(guest):
    """Both virtual functions, started, in switchdev mode; ``port`` and ``representor`` of each."""
    vfs = [Vf(guest, number).start() for number in (0, 1)]
    set_mode(guest, "switchdev")
    for vf, (port, told) in zip(vfs, ports(guest).items(), strict=True):
        vf.port, vf.representor = port, told["netdev"]
        run(guest, f"ip link set {vf.representor} up")
    yield vfs
    if guest.is_running:
        for vf in vfs:
            run(guest, f"ip netns del {vf.space}; sleep 0.5")
        set_mode(guest, "legacy")
        assert ports(guest) == {}


def bind(guest, number, to="bind"):
    """Bind or unbind the driver of a virtual function."""
    name = f"$(basename $(readlink {PF}/virtfn{number}))"
    run(guest, f"echo {name} > /sys/bus/pci/drivers/mlx5_core/{to}")


def told(guest):
    """What `ip link` tells of each virtual function."""
    (link,) = json.loads(run(guest, "ip -j link show eth0"))
    return link["vfinfo_list"]


def reaches(guest, space, address, *, times=3):
    """Whether packets from a namespace, or from the guest's own for "", arrive at an address."""
    there = f"ip netns exec {space} " if space else ""
    command = f"{there}ping -c {times} -i 0.2 -W 2 {address} >/dev/null && echo yes || echo no"
    return run(guest, command).strip() == "yes"


class Vf:
    """A virtual function with an interface."""

    def __init__(self, guest, number):
        self.guest, self.number = guest, number
        self.space, self.mac = f"vf{number}", f"02:00:00:00:77:{number:02x}"
        self.address = f"10.0.7.{number + 1}"

    def start(self):
        """Give it an address and its driver, and put its interface into the namespace."""
        run(self.guest, f"ip link set eth0 vf {self.number} mac {self.mac}")
        run(self.guest, f"ip netns add {self.space}; ip -n {self.space} link set lo up")
        bind(self.guest, self.number, "unbind")
        bind(self.guest, self.number)
        return self.take()

    def take(self):
        """Put its interface, once there, into the namespace, with its address."""
        guest, space = self.guest, self.space
        self.name = interface(guest, self.number)
        run(guest, f"ip link set {self.name} netns {space}")
        run(guest, f"ip -n {space} address add {self.address}/24 dev {self.name}")
        run(guest, f"ip -n {space} link set {self.name} up")
        self.wait_for("LOWER_UP")
        return self

    def run(self, command):
        return run(self.guest, f"ip netns exec {self.space} {command}")

    def wait_for(self, flag):
        run(
            self.guest,
            f"until ip -n {self.space} link show {self.name} | grep -q {flag}; do sleep 0.1; done",
        )

    def set(self, setting):
        run(self.guest, f"ip link set eth0 vf {self.number} {setting}")

    def reaches(self, address, **options):
        return reaches(self.guest, self.space, address, **options)
