"""RoCE under stock drivers: two functions of a guest, two guests, and Soft-RoCE as the peer."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from helpers.guest.guests import (
    FEW_KEYS,
    nic,
    no_complaints_since_boot,
    on_a_fabric,
    reaches,
    run,
    running,
    with_qemus_nic,
)
from helpers.guest.roce_guests import (
    GID_OF_IPV4,
    GID_OF_IPV4_V1,
    NAMESPACES,
    ONE,
    SOFT_ROCE,
    TWO,
    UP,
    by_address,
    gid_of,
)
from helpers.guest.traffic_tools import converse, talk, verify

from emu.guests import GuestOptions
from emu.server.control import Client

pytestmark = pytest.mark.guest

STORAGE = Path(__file__).parents[3] / "examples" / "storage"
PINGPONGS = ("rc -c", "rc -e -c", "uc -c", "ud -c", "srq -q 4 -c", "xsrq")
PERFTESTS = (
    "ib_send_bw -s 65536 -n 20", "ib_write_bw -s 1048576 -n 10", "ib_read_bw -s 65536 -n 20 -o 16",
    "ib_atomic_bw -n 50 -o 16", "ib_write_lat -s 2 -n 50", "ib_send_bw -c UD -s 2048 -n 50",
    "ib_write_bw -c UC -s 2048 -n 50", "ib_send_bw -c XRC -s 4096 -n 20",
)  # fmt: skip
"""With no more READs outstanding than the adapter has: Soft-RoCE would have its peer use 128."""

BY_ADDRESS = (
    ("rping -s -a {to} -C 10 -V", "rping -c -a {to} -C 10 -V"),
    ("ucmatose -b {to} -C 10", "ucmatose -s {to} -C 10"),
    ("udaddy -b {to} -C 10", "udaddy -s {to} -C 10"),
    ("ib_write_bw -R -F -s 4096 -n 20", "ib_write_bw -R -F -s 4096 -n 20 {to}"),
    pytest.param(
        ("rstream -b {to} -S 4096 -C 10 -I 10", "rstream -s {to} -S 4096 -C 10 -I 10"),
        marks=pytest.mark.slow,
    ),
    pytest.param(
        ("riostream -b {to} -S 4096 -C 10 -I 10", "riostream -s {to} -S 4096 -C 10 -I 10"),
        marks=pytest.mark.slow,
    ),
)
CM_SETTINGS = """modprobe rdma_cm
mountpoint -q /sys/kernel/config || mount -t configfs none /sys/kernel/config
mkdir -p /sys/kernel/config/rdma_cm/mlx5_0"""
ROCE_MODE = "/sys/kernel/config/rdma_cm/mlx5_0/ports/1/default_roce_mode"
KNOWN = re.compile("firmware level support is missing")
"""What 6.1 says of TC offload."""


@pytest.fixture(scope="class")
def guest(lab, suite):
    """Two functions; the second one is in a network namespace of its own."""
    options = GuestOptions(
        suite=suite, devices=("connectx6dx",) * 2, memory_mib=1024, kernel_arguments=FEW_KEYS
    )
    with running(options) as (found,):
        run(found, UP.format(address=ONE, nic="eth0"))
        run(found, NAMESPACES)
        yield found
        no_complaints_since_boot(found, known=KNOWN)


class TestInOneGuest:
    def test_the_port_is_as_rdma_tools_want_it(self, guest):
        assert "link_layer:\t\tEthernet" in run(guest, "ibv_devinfo -d mlx5_0")
        table = """cd /sys/class/infiniband/mlx5_0/ports/1
            for index in 0 1 2 3; do
                echo "$(cat gids/$index), $(cat gid_attrs/types/$index)"
            done"""
        rows = [line.split(", ") for line in run(guest, table).splitlines()]
        assert [kind for _, kind in rows] == ["IB/RoCE v1", "RoCE v2"] * 2
        assert [gid for gid, _ in rows] == [rows[0][0]] * 2 + [rows[2][0]] * 2
        assert rows[2][0].endswith("ffff:0a00:0001")

    def test_programs_of_librdmacm_want_version_2(self, guest):
        """As on real cards: the kernel prefers it where both are offered."""
        assert run(guest, f"{CM_SETTINGS}; cat {ROCE_MODE}").strip() == "RoCE v2"

    @pytest.mark.parametrize("gid", [GID_OF_IPV4, GID_OF_IPV4_V1], ids=["v2", "v1"])
    @pytest.mark.parametrize("options", PINGPONGS)
    def test_pingpong_with_itself(self, guest, options, gid):
        kind, *options = options.split()
        command = f"ibv_{kind}_pingpong -g {gid} -n 50 {' '.join(options)}"
        converse(guest, guest, command, ONE)

    @pytest.mark.parametrize("mode", ["IB/RoCE v1", "RoCE v2"])
    def test_a_program_of_librdmacm_by_the_version_that_the_port_is_set_to(self, guest, mode):
        run(guest, f"{CM_SETTINGS}; echo '{mode}' > {ROCE_MODE}")
        try:
            by_address(guest, guest, BY_ADDRESS[0], ONE)
        finally:
            run(guest, f"echo 'RoCE v2' > {ROCE_MODE}")

    @pytest.mark.slow
    @pytest.mark.parametrize("command", PERFTESTS)
    def test_perftest_with_itself(self, guest, command):
        converse(guest, guest, f"{command} -F -x {GID_OF_IPV4}", ONE)

    @pytest.mark.parametrize("commands", BY_ADDRESS, ids=lambda one: one[0].split()[0])
    def test_connections_by_address(self, guest, commands):
        by_address(guest, guest, commands, TWO, "ip netns exec peer")
        by_address(guest, guest, commands, ONE)


@pytest.mark.slow
def test_ends_of_different_versions_do_not_meet(lab, suite):
    """A port has GIDs of both, but an end takes only what comes by the version of its own."""
    guest = lab.get(
        GuestOptions(
            suite=suite, devices=("connectx6dx",), memory_mib=1024, kernel_arguments=FEW_KEYS
        )
    )
    run(guest, UP.format(address=ONE, nic="eth0").replace(" add ", " replace "))
    devices = {
        "server_device": f"mlx5_0 -g {GID_OF_IPV4_V1}",
        "client_device": f"mlx5_0 -g {GID_OF_IPV4}",
    }
    told = talk(guest, guest, "timeout 40 ibv_rc_pingpong -n 5", ONE, **devices)
    assert told.statuses[1], told
    assert "transport retry counter exceeded" in told


@pytest.fixture(scope="module", params=[on_a_fabric, with_qemus_nic], ids=["fabric", "Soft-RoCE"])
def guests(lab, suite, request, tmp_path_factory):
    """Two guests that hear each other: (guest, its RDMA device, its address) of each.

    Over QEMU's own NIC the second one has RoCE in software.
    """
    options = request.param(suite, tmp_path_factory.mktemp("roce") / "socket")
    with running(*(replace(one, share=STORAGE) for one in options)) as found:
        ends = []
        for guest, address in zip(found, (ONE, TWO)):
            name = nic(guest)
            run(guest, UP.format(address=address, nic=name).replace(" mtu 4200", ""))
            is_soft = not guest.options.devices
            if is_soft:
                run(guest, SOFT_ROCE.format(nic=name))
            ends.append((guest, "rxe0" if is_soft else "mlx5_0", address))
        reaches(found[0], TWO)
        yield ends
        no_complaints_since_boot(*found, known=KNOWN)


@pytest.fixture(params=["there", "back"])
def ways(guests, request):
    """(server, client), both ways."""
    return guests[::-1] if request.param == "there" else guests


@pytest.mark.parametrize("options", ["rc -c", "ud -c", "uc -c", "srq -q 4 -c"])
def test_pingpong(ways, options):
    kind, *options = options.split()
    (server, theirs, to), (client, ours, _) = ways
    command = f"ibv_{kind}_pingpong -n 50 {' '.join(options)}"
    theirs, ours = (f"{name} -g {gid_of(name)}" for name in (theirs, ours))
    converse(server, client, command, to, server_device=theirs, client_device=ours)


def only_adapters(ends):
    if "rxe0" in (name for _, name, _ in ends):
        pytest.skip("Soft-RoCE has no v1")


@pytest.mark.parametrize("options", ["rc -c", "ud -c", "uc -c", "xsrq"])
def test_pingpong_by_version_1(ways, options):
    only_adapters(ways)
    (server, _, to), (client, _, _) = ways
    kind, *options = options.split()
    command = f"ibv_{kind}_pingpong -g {GID_OF_IPV4_V1} -n 50 {' '.join(options)}"
    converse(server, client, command, to)


@pytest.mark.parametrize("command", PERFTESTS)
def test_perftest(ways, command):
    (server, theirs, to), (client, ours, _) = ways
    if "XRC" in command and "rxe0" in (theirs, ours):
        pytest.skip("Soft-RoCE has no XRC")
    if "-s 2048" in command:
        command = command.replace("2048", "1024")  # what fits the path MTU of an MTU of 1500
    theirs, ours = (f"{name} -x {gid_of(name)}" for name in (theirs, ours))
    converse(server, client, f"{command} -F", to, server_device=theirs, client_device=ours)


@pytest.mark.parametrize("command", PERFTESTS[::3])
def test_perftest_by_version_1(ways, command):
    only_adapters(ways)
    (server, _, to), (client, _, _) = ways
    converse(server, client, f"{command} -F -x {GID_OF_IPV4_V1}", to)


@pytest.mark.parametrize("commands", BY_ADDRESS, ids=lambda one: one[0].split()[0])
def test_connections_by_address(ways, commands):
    (server, _, to), (client, _, _) = ways
    by_address(server, client, commands, to)


@pytest.mark.parametrize(
    ("loss", "version"), [(0, 2), (1, 2), (1, 1)], ids=["v2", "v2 with loss", "v1 with loss"]
)
def test_data_are_what_was_sent(ways, loss, version):
    """Byte by byte, with atomics, while the link loses this many packets of a hundred."""
    if version == 1:
        only_adapters(ways)
    (server, theirs, to), (client, ours, _) = ways
    adapter = next(guest for guest, *_ in ways if guest.options.devices)
    gids = [gid_of(name) if version == 2 else GID_OF_IPV4_V1 for name in (theirs, ours)]
    theirs, ours = (
        [f"DEVICE={name}", f"GID_INDEX={gid}"] for name, gid in zip((theirs, ours), gids)
    )
    with Client(adapter.control_socket) as control:
        control.set_link(loss=loss)
        try:
            verify(server, client, to, theirs, ours)
        finally:
            control.set_link()


@pytest.mark.slow
def test_nvme(ways):
    """One side's kernel has the target, the other's is its host."""
    (server, _, to), (client, _, _) = ways
    program = "sh /mnt/share/nvme-rdma.sh"
    run(server, f"{program} target {to}")
    said = run(client, f"{program} host {to}")
    run(server, f"{program} remove {to}")
    assert "2m in blocks of 4k written and verified" in said
    assert "16m in blocks of 256k written and verified" in said
    assert "is the same after mounting again" in said
