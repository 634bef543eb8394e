"""Transport domains and the interfaces that send queues name (TIS)."""

import pytest
from helpers.device.refusals import missing

from emu.driver.ethernet.interfaces import alloc_td, create_tis
from layouts.enums.caps import UctxCap
from layouts.enums.cmd import Op, Status


def query(driver, tisn):
    return driver.must(Op.QUERY_TIS, tisn=tisn).tis_context


def test_one_for_each_traffic_class(driver):
    """mlx5e makes eight; a TIS is in its transport domain from then on."""
    td = alloc_td(driver)
    made = [create_tis(driver, td, prio=2 * tc) for tc in range(8)]
    assert len(set(made)) == 8
    for tc, tisn in enumerate(made):
        context = query(driver, tisn)
        assert (context.prio, context.transport_domain) == (2 * tc, td)


def test_another_priority(driver, refused):
    tisn = create_tis(driver, alloc_td(driver), prio=2)
    driver.must(Op.MODIFY_TIS, tisn=tisn, bitmask={"prio": 1}, ctx={"prio": 6})
    assert query(driver, tisn).prio == 6
    driver.must(Op.MODIFY_TIS, tisn=tisn, ctx={"prio": 4})
    assert query(driver, tisn).prio == 6
    for name in ("lag_tx_port_affinity", "strict_lag_tx_port_affinity"):
        refused(Status.BAD_PARAM_ERR, Op.MODIFY_TIS, tisn=tisn, bitmask={name: 1})


def test_domain_is_needed_as_long_as_it_is_used(driver, refused):
    td = alloc_td(driver)
    tisn = create_tis(driver, td)
    refused(Status.BAD_RES_STATE_ERR, Op.DEALLOC_TRANSPORT_DOMAIN, transport_domain=td)
    driver.must(Op.DESTROY_TIS, tisn=tisn)
    driver.must(Op.DEALLOC_TRANSPORT_DOMAIN, transport_domain=td)
    refused(Status.BAD_RES_ERR, Op.CREATE_TIS, ctx={"transport_domain": td})
    for op in (Op.QUERY_TIS, Op.MODIFY_TIS, Op.DESTROY_TIS):
        refused(missing(op), op, tisn=tisn)


@pytest.mark.parametrize("option", ["tls_en", "lag_tx_port_affinity"])
def test_options_without_their_capability(driver, refused, option):
    td = alloc_td(driver)
    refused(Status.BAD_PARAM_ERR, Op.CREATE_TIS, ctx={"transport_domain": td, option: 1})


def test_no_underlay_on_ethernet(driver, refused):
    td = alloc_td(driver)
    refused(Status.BAD_RES_ERR, Op.CREATE_TIS, ctx={"transport_domain": td, "underlay_qpn": 0x40})


@pytest.mark.parametrize("limits", [{"log_max_tis": 3}])
def test_as_many_as_advertised(driver, refused):
    td = alloc_td(driver)
    for _ in range((1 << 3) - 1):
        create_tis(driver, td)
    refused(Status.LIM_ERR, Op.CREATE_TIS, ctx={"transport_domain": td})


def test_domain_of_another_user(driver, refused):
    raw = {"cap": UctxCap.RAW_TX}
    mine, other = (driver.must(Op.CREATE_UCTX, uctx=raw).uid for _ in range(2))
    td = driver.must(Op.ALLOC_TRANSPORT_DOMAIN, uid=mine).transport_domain
    refused(Status.BAD_RES_ERR, Op.CREATE_TIS, uid=other, ctx={"transport_domain": td})
    tisn = driver.must(Op.CREATE_TIS, uid=mine, ctx={"transport_domain": td}).tisn
    refused(Status.BAD_RES_STATE_ERR, Op.DESTROY_TIS, uid=other, tisn=tisn)
    driver.must(Op.DESTROY_TIS, uid=mine, tisn=tisn)


@pytest.mark.hostile
def test_a_process_without_the_right_to_send_raw_packets(driver, refused):
    """The driver gives RAW_TX to those with CAP_NET_RAW, if the device has it (devx.c)."""
    assert driver.caps.uctx_cap == UctxCap.RAW_TX
    user = driver.must(Op.CREATE_UCTX).uid
    td = driver.must(Op.ALLOC_TRANSPORT_DOMAIN, uid=user).transport_domain
    refused(Status.BAD_PARAM_ERR, Op.CREATE_TIS, uid=user, ctx={"transport_domain": td})
    create_tis(driver, alloc_td(driver))
    refused(Status.BAD_PARAM_ERR, Op.CREATE_UCTX, uctx={"cap": 2})
