"""Queue pairs that let data come in any order (mlx5dv: MLX5DV_QP_CREATE_OOO_DP): they keep it."""

import pytest

from emu.device.models import LINKS, MODELS
from emu.driver.verbs.connect import connect
from layouts.enums.caps import CapMode, CapType
from layouts.enums.cmd import Op
from layouts.enums.qp import QpType
from layouts.function.caps import cmd_hca_cap_2


@pytest.fixture
def model():
    return MODELS["connectx7"]


def test_by_model():
    has = {
        name: {bool(model.general.get("dp_ordering_ooo_all_rc")) for model in links.values()}
        for name, links in LINKS.items()
    }
    assert {name for name, found in has.items() if found == {True}} == {
        name for name in has if name.startswith(("connectx7", "bluefield3"))
    }
    assert all(len(found) == 1 for found in has.values())


def test_the_driver_is_told(driver):
    answer = driver.must(Op.QUERY_HCA_CAP, op_mod=CapType.GENERAL_2 << 1 | CapMode.CUR)
    assert cmd_hca_cap_2.view(answer.capability).dp_ordering_force


@pytest.mark.parametrize("service", [QpType.RC, QpType.UC])
def test_order_is_kept(ends, service):
    """Twice as many receive requests as libmlx5 lets be used; what is sent first comes first."""
    one, two = (node.queue_pair(service) for node in ends)
    connect(one, two)
    source, target = (node.region(256) for node in ends)
    source.write(bytes(range(16)))
    for number in range(8):
        two.post_recv(target.sge(number, 1))
    for number in range(8):
        one.send(source.sge(number, 1))
    ends[0].settle()
    assert [done.wqe_counter for done in two.cq.drain()] == list(range(8))
    assert target.read(0, 8) == bytes(range(8))
