"""Work requests that come by the doorbell register (``bf=1``): the driver and libmlx5 with it."""

from __future__ import annotations

import pytest
from helpers.guest import traffic_tools
from helpers.guest.guests import no_complaints, run
from helpers.guest.traffic_tools import PINGPONGS, check_table, converse

from emu.guests import GuestOptions

pytestmark = pytest.mark.guest

HERE = "127.0.0.1"
PERFTESTS = traffic_tools.perftests((2, 4096), sizes_of_16=(2,))
UAR = """
from pyverbs.device import Context
from pyverbs.providers.mlx5.mlx5dv import Mlx5UAR
context = Context(name="mlx5_0")
pages = [Mlx5UAR(context, kind) for kind in range(2)]  # MLX5DV_UAR_ALLOC_TYPE_BF, _NC
print(len(pages))
for page in pages:
    page.close()
"""


@pytest.fixture(scope="module")
def guest(lab, suite):
    """With IPoIB's driver, in whose protection domain Linux 6.12 tests write combining."""
    guest = lab.get(GuestOptions(suite=suite, devices=("connectx6,bf=1",) * 2))
    run(guest, "modprobe ib_ipoib")
    with no_complaints(guest):
        yield guest


def test_the_drivers_test_of_write_combining(lab, suite):
    """Without it libmlx5 gets no page of the kind that it copies to."""
    guest = lab.get(GuestOptions(suite=suite, devices=("connectx6dx,bf=1",)))
    with no_complaints(guest):
        assert guest.run("python3 -", stdin=UAR.encode()).check().stdout == "2\n"
    assert "write-combining" not in run(guest, "dmesg")


@pytest.mark.parametrize("program", PINGPONGS)
def test_pingpong(guest, program):
    converse(guest, guest, PINGPONGS[program], HERE, client_device="mlx5_1")


@pytest.mark.parametrize("program", PERFTESTS)
def test_perftest(guest, program):
    told = converse(guest, guest, PERFTESTS[program], HERE, client_device="mlx5_1")
    check_table(told)
