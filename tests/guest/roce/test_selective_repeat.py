"""Selective repeat, switched on by mstflint's mstreg, over links that lose packets."""

import re

import pytest
from helpers.guest.guests import run
from helpers.guest.kernel_log import KernelLog, server_complaints
from helpers.guest.roce_guests import NAMESPACES, ONE, TWO, UP, by_address

from emu.server.control import Client

pytestmark = [pytest.mark.guest, pytest.mark.slow]

REGISTER = "mstreg -d {} --reg_id 0x402c --reg_len 0x40"
SWITCH_ON = f"{REGISTER} --yes --set 0x0.6:1=1,0x4.6:1=1"
ADDRESSES = "0000:01:00.0", "0000:02:00.0"
RPING = ("rping -s -a {to} -C 40 -S 60000 -V", "rping -c -a {to} -C 40 -S 60000 -V")
COUNTERS = "/sys/class/infiniband/{}/ports/1/hw_counters/{}"
INSIDE = {"mlx5_0": "", "mlx5_1": "ip netns exec peer"}


@pytest.fixture
def guest(boot):
    made = boot(devices=("connectx6dx",) * 2, packages=("mstflint",))
    log = KernelLog(made)
    run(made, UP.format(address=ONE, nic="eth0"))
    run(made, NAMESPACES)
    yield made
    assert log.complaints() == []
    assert server_complaints(made) == []


def words(said):
    """The register's words, as mstreg prints them."""
    return [int(word, 16) for word in re.findall(r"\|\s*(0x[0-9a-f]{8})", said)]


def test_verified_data_over_links_that_lose(guest):
    for address in ADDRESSES:
        assert words(run(guest, f"{REGISTER.format(address)} --get"))[:2] == [0x41, 0x01]
        run(guest, SWITCH_ON.format(address))
        assert words(run(guest, f"{REGISTER.format(address)} --get"))[:2] == [0x41, 0x41]

    def counted(name):
        """Of both functions together."""
        return sum(
            int(run(guest, f"{inside} cat {COUNTERS.format(device, name)}"))
            for device, inside in INSIDE.items()
        )

    with Client(guest.control_socket) as control:
        control.set_link(direction="tx", delay="1ms", loss=1)
        by_address(guest, guest, RPING, TWO, "ip netns exec peer")
        control.set_link()
    assert counted("out_of_sequence") >= counted("packet_seq_err") > 0
    assert counted("roce_adp_retrans") <= counted("roce_adp_retrans_to")
