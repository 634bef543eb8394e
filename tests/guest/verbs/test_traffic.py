"""rdma-core's pingpongs and perftest inside a function and between two, in every size."""

from __future__ import annotations

import pytest
from helpers.guest import traffic_tools
from helpers.guest.kernel_log import KernelLog, server_complaints
from helpers.guest.traffic_tools import PINGPONGS, check_table, converse

from emu.guests import GuestOptions

pytestmark = pytest.mark.guest

INSIDE_ONE = traffic_tools.perftests((2, 4 << 20), sizes_of_16=(2, 65536))
BETWEEN_TWO = traffic_tools.perftests((2, 4096, 1 << 20, 4 << 20), sizes_of_16=(2, 4096, 65536))
HERE = "127.0.0.1"


@pytest.fixture(scope="module")
def guest(lab, suite):
    """With two functions; what its kernel and its server have to complain of is a failure."""
    guest = lab.get(GuestOptions(suite=suite, devices=("connectx6-vf", "connectx6-vf")))
    log, before = KernelLog(guest), len(server_complaints(guest))
    yield guest
    assert log.complaints() == []
    assert server_complaints(guest)[before:] == []


@pytest.mark.parametrize("program", PINGPONGS)
def test_pingpong_inside_one_function(guest, program):
    converse(guest, guest, PINGPONGS[program], HERE)


@pytest.mark.parametrize("program", PINGPONGS)
def test_pingpong_between_two_functions(guest, program):
    converse(guest, guest, PINGPONGS[program], HERE, client_device="mlx5_1")


@pytest.mark.parametrize("program", INSIDE_ONE)
def test_perftest_inside_one_function(guest, program):
    check_table(converse(guest, guest, INSIDE_ONE[program], HERE))


@pytest.mark.parametrize("program", BETWEEN_TWO)
def test_perftest_between_two_functions(guest, program):
    told = converse(guest, guest, BETWEEN_TWO[program], HERE, client_device="mlx5_1")
    check_table(told)
