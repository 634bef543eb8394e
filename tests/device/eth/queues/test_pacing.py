"""Rates of send queues: packet pacing, scheduling elements, limits of traffic classes."""

import pytest

from emu.device.models import LINKS, MODELS
from emu.device.objects.eth.pacing import MAX_DEPTH, SLACK_NS, Limit
from emu.driver.ethernet.interfaces import alloc_td, create_tis
from emu.driver.ethernet.rings import sq_fields
from emu.driver.ethernet.send_queue import SendQueue
from emu.driver.verbs.completions import CompletionQueue
from firmware_cmds.objects.scheduling import NIC, QUEUE_GROUP
from firmware_cmds.objects.vport_scheduling import TSAR
from layouts.enums.caps import CapMode, CapType, PortType
from layouts.enums.cmd import Op, Status
from layouts.enums.regs import RegId
from layouts.enums.wq import SqState
from layouts.function.eth_caps import qos_cap
from layouts.regs import qos_regs

SIZE = 1250
"""Bytes of a frame: 10,000 bits."""
MS = 1_000_000
SECOND = 1000 * MS
MBPS_100, GBPS = 3, 4


@pytest.fixture
def base_model():
    return MODELS["connectx6dx"]


@pytest.fixture
def region(node):
    return node.region(4096, va=0x10000)


@pytest.fixture
def make(node, driver, region):
    td = alloc_td(driver)

    def queue(prio=0, **context):
        return SendQueue(node, tisn=create_tis(driver, td, prio=prio), log_size=9, **context)

    return queue


@pytest.fixture
def send(region):
    """Post frames, with a number of the queue in each."""

    def frames(sq, count, number=0):
        region.write(b"\x02\0\0\0\0\x09" * 2 + b"\x88\xb5" + bytes((number,)), 2048 * number)
        for _ in range(count):
            sq.send((SIZE, region.key, region.va + 2048 * number), ring=False)
        sq.ring_doorbell()

    return frames


@pytest.fixture
def passed(node, clock, eth_wire):
    """How many frames of each queue leave within some time."""

    def within(ns, step=MS):
        found = []
        for _ in range(ns // step):
            node.settle()
            clock.advance(step)
        node.settle()
        found = [frame.data[14] for frame in eth_wire.sent()]
        return {number: found.count(number) for number in set(found)}

    return within


@pytest.fixture
def table(driver):
    def entry(index, kbps, burst=0):
        return driver.command(
            Op.SET_PP_RATE_LIMIT, rate_limit_index=index,
            ctx={"rate_limit": kbps, "burst_upper_bound": burst},
        ).status  # fmt: skip

    return entry


def use(sq, index):
    sq.node.driver.must(
        Op.MODIFY_SQ, sqn=sq.sqn, sq_state=sq.state, modify_bitmask=1,
        ctx={"state": sq.state, "packet_pacing_rate_limit_index": index},
    )  # fmt: skip


@pytest.mark.parametrize("bps", [1_000, 10_000_000, 400_000_000_000])
def test_a_limit(bps):
    limit, now, sent = Limit(bps), 5 * SECOND, 0
    for _ in range(1000):
        delay = limit.delay(now)
        now += delay
        assert limit.delay(now) == 0
        limit.charge(SIZE, now)
        sent += SIZE * 8
    passed = (now - 5 * SECOND + SLACK_NS) / SECOND
    assert sent - 2 * SIZE * 8 <= bps * passed <= sent + bps * SLACK_NS / SECOND


def test_what_there_is(driver):
    answer = driver.must(Op.QUERY_HCA_CAP, op_mod=CapType.QOS << 1 | CapMode.CUR)
    caps = qos_cap.view(answer.capability)
    assert (caps.packet_pacing, caps.packet_pacing_rate_table_size) == (1, 128)
    assert (caps.nic_sq_scheduling, caps.nic_bw_share, caps.nic_rate_limit) == (1, 1, 1)
    assert "packet_pacing" not in MODELS["connectx6dx-vf"].qos
    assert "nic_sq_scheduling" not in MODELS["connectx4lx"].qos
    assert MODELS["connectx5"].qos["packet_pacing"] == 1
    assert "packet_pacing" not in MODELS["connectx6-vf"].qos


@pytest.mark.parametrize(
    ("name", "link", "gbps"),
    [
        ("connectx4lx", PortType.ETH, 25),
        ("connectx5", PortType.ETH, 100),
        ("connectx5", PortType.IB, 100),
        ("connectx6", PortType.ETH, 200),
        ("connectx6", PortType.IB, 200),
        ("connectx6dx", PortType.ETH, 100),
        ("connectx6lx", PortType.ETH, 25),
        ("connectx7", PortType.ETH, 400),
        ("connectx7", PortType.IB, 400),
        ("bluefield2", PortType.ETH, 100),
        ("bluefield3", PortType.ETH, 400),
    ],
)
def test_the_fastest_rate_is_the_ports(name, link, gbps):
    model = LINKS[name][link]
    assert model.qos["packet_pacing_max_rate"] == gbps * 1_000_000
    assert model.port_mbps == gbps * 1000


def test_as_fast_as_the_port(table, hca):
    """An entry of the whole rate is taken, which is 97656 of the units that sysfs has."""
    assert table(1, 100_000_000) == Status.OK
    assert hca.rates.limits[1].kbps == 100_000_000


class TestPacketPacing:
    def test_rate(self, make, send, passed, table):
        assert table(1, 1000) == Status.OK
        sq = make()
        use(sq, 1)
        send(sq, 200)
        assert 99 <= passed(SECOND)[0] <= 102
        assert 99 <= passed(SECOND)[0] <= 102

    def test_from_the_beginning(self, make, send, passed, table):
        table(5, 1000)
        sq = make(packet_pacing_rate_limit_index=5)
        send(sq, 50)
        assert 9 <= passed(100 * MS)[0] <= 12

    def test_each_queue_for_itself(self, make, send, passed, table):
        table(1, 1000)
        queues = [make() for _ in range(2)]
        for number, sq in enumerate(queues):
            use(sq, 1)
            send(sq, 50, number)
        found = passed(100 * MS)
        assert 9 <= found[0] <= 12
        assert 9 <= found[1] <= 12

    def test_rest_of_the_queues(self, make, send, passed, table):
        table(1, 1000)
        slow, fast = make(), make()
        use(slow, 1)
        send(slow, 50, 0)
        send(fast, 50, 1)
        found = passed(10 * MS)
        assert found[1] == 50
        assert found[0] <= 4

    def test_burst(self, make, send, passed, table):
        table(1, 1000, 10 * SIZE)
        sq = make()
        use(sq, 1)
        send(sq, 50)
        assert 10 <= passed(MS)[0] <= 12

    def test_no_limit_any_more(self, make, send, passed, table, clock):
        table(1, 1000)
        sq = make()
        use(sq, 1)
        send(sq, 200)
        passed(10 * MS)
        use(sq, 0)
        assert passed(MS)[0] >= 190
        assert clock.waiting() == 0

    def test_another_rate(self, make, send, passed, table):
        table(1, 1000)
        sq = make()
        use(sq, 1)
        send(sq, 300)
        passed(100 * MS)
        table(1, 10_000)
        assert 98 <= passed(100 * MS)[0] <= 104

    @pytest.mark.parametrize("how", ["reset", "error", "destroy", "teardown"])
    def test_ends(self, make, send, passed, table, clock, driver, how):
        table(1, 1000)
        sq = make()
        use(sq, 1)
        send(sq, 50)
        passed(10 * MS)
        assert clock.waiting() == 1
        if how == "destroy":
            driver.must(Op.DESTROY_SQ, sqn=sq.sqn)
        elif how == "teardown":
            driver.must(Op.TEARDOWN_HCA)
        else:
            sq.modify(SqState.RST if how == "reset" else SqState.ERR)
        assert clock.waiting() == 0
        assert passed(SECOND) == {}

    def test_what_it_has_sent_counts_when_another_rate_changes(self, make, send, passed, table):
        """Else a guest would escape from one limit by changing another again and again."""
        table(1, 1000)
        sq = make()
        use(sq, 1)
        send(sq, 300)
        count = 0
        for kbps in range(2000, 2100):
            table(2, kbps)
            count += passed(MS).get(0, 0)
        assert 9 <= count <= 12

    @pytest.mark.parametrize("entry", [(0, 1000), (128, 1000), (1, 100_000_001)])
    def test_entries_that_cannot_be(self, table, hca, entry):
        assert table(*entry) == Status.BAD_PARAM_ERR
        assert hca.rates.limits == {}

    def test_an_entry_is_taken_away(self, make, send, passed, table, hca):
        """The driver does so before it tells the queue (core/en_main.c: mlx5e_set_sq_maxrate)."""
        table(1, 1000)
        sq = make()
        use(sq, 1)
        send(sq, 100)
        passed(10 * MS)
        assert table(1, 0) == Status.OK
        assert hca.rates.limits == {}
        assert passed(MS)[0] > 90
        use(sq, 0)

    def test_no_such_entry(self, make, driver, node, table):
        sq = make()
        answer = driver.command(
            Op.MODIFY_SQ, sqn=sq.sqn, sq_state=SqState.RDY, modify_bitmask=1,
            ctx={"state": SqState.RDY, "packet_pacing_rate_limit_index": 3},
        )  # fmt: skip
        assert answer.status == Status.BAD_PARAM_ERR
        cq = CompletionQueue(node)
        fields, _ = sq_fields(driver, node.pdn, cq.cqn, packet_pacing_rate_limit_index=3)
        assert driver.command(Op.CREATE_SQ, **fields).status == Status.BAD_PARAM_ERR


class TestScheduling:
    @pytest.fixture
    def element(self, driver):
        def make(parent=0, kind=TSAR, share=0, mbps=0, **others):
            context = {
                "element_type": kind, "parent_element_id": parent, "bw_share": share,
                "max_average_bw": mbps, **others,
            }  # fmt: skip
            return driver.must(
                Op.CREATE_SCHEDULING_ELEMENT, scheduling_hierarchy=NIC, scheduling_context=context
            ).scheduling_element_id

        return make

    def modify(self, driver, handle, bitmask, **context):
        return driver.command(
            Op.MODIFY_SCHEDULING_ELEMENT, scheduling_hierarchy=NIC, scheduling_element_id=handle,
            modify_bitmask=bitmask, scheduling_context=context,
        ).status  # fmt: skip

    def destroy(self, driver, handle):
        return driver.command(
            Op.DESTROY_SCHEDULING_ELEMENT, scheduling_hierarchy=NIC, scheduling_element_id=handle
        ).status

    def test_limit_of_a_leaf(self, make, send, passed, element):
        group = element(element(), QUEUE_GROUP, 100, 1)
        sq = make(qos_queue_group_id=group)
        send(sq, 200)
        assert 99 <= passed(SECOND)[0] <= 102

    def test_limit_of_a_node_is_shared(self, make, send, passed, element):
        root = element()
        inner = element(root, mbps=2)
        queues = [make(qos_queue_group_id=element(inner, QUEUE_GROUP, 50)) for _ in range(2)]
        for number, sq in enumerate(queues):
            send(sq, 300, number)
        found = passed(SECOND)
        assert 198 <= sum(found.values()) <= 206
        assert abs(found[0] - found[1]) < 110

    def test_shares(self, make, send, passed, element):
        """Three to one, of what the node has to give."""
        inner = element(element(), mbps=4)
        queues = [make(qos_queue_group_id=element(inner, QUEUE_GROUP, share)) for share in (75, 25)]
        for number, sq in enumerate(queues):
            send(sq, 500, number)
        found = passed(SECOND)
        assert 398 <= sum(found.values()) <= 410
        assert 240 <= found[0] <= 360

    def test_what_one_does_not_want_the_other_gets(self, make, send, passed, element):
        inner = element(element(), mbps=2)
        one, other = (
            make(qos_queue_group_id=element(inner, QUEUE_GROUP, share)) for share in (90, 10)
        )
        send(one, 10, 0)
        send(other, 400, 1)
        found = passed(SECOND)
        assert found[0] == 10
        assert found[1] >= 185

    def test_a_node_without_a_limit_holds_nobody_back(self, make, send, passed, element):
        """However long a neighbour waits for a limit of its own."""
        root = element()
        slow = make(qos_queue_group_id=element(root, QUEUE_GROUP, 50, 1))
        send(slow, 200, 0)
        fast = make(qos_queue_group_id=element(root, QUEUE_GROUP, 50))
        send(fast, 200, 1)
        found = passed(5 * MS)
        assert found[0] < 10
        assert found[1] == 200

    def test_changes(self, make, send, passed, element, driver):
        root = element()
        group = element(root, QUEUE_GROUP, 100, 1)
        sq = make(qos_queue_group_id=group)
        send(sq, 400)
        passed(100 * MS)
        assert self.modify(driver, group, 2, max_average_bw=10) == Status.OK
        assert 98 <= passed(100 * MS)[0] <= 104
        assert self.modify(driver, group, 2, max_average_bw=0) == Status.OK
        assert passed(MS)[0] >= 190
        answer = driver.must(
            Op.QUERY_SCHEDULING_ELEMENT, scheduling_hierarchy=NIC, scheduling_element_id=group
        )
        context = answer.scheduling_context
        assert (context.bw_share, context.max_average_bw) == (100, 0)
        assert context.parent_element_id == root

    def test_a_queue_changes_its_group(self, make, send, passed, element, driver):
        """core/en/qos.c: mlx5e_activate_qos_sq, mlx5e_htb_node_modify."""
        group = element(element(), QUEUE_GROUP, 100, 1)
        sq = make()

        def join(handle):
            driver.must(
                Op.MODIFY_SQ, sqn=sq.sqn, sq_state=SqState.RDY, modify_bitmask=4,
                ctx={"state": SqState.RDY, "qos_queue_group_id": handle},
            )  # fmt: skip

        join(group)
        assert self.destroy(driver, group) == Status.BAD_RES_STATE_ERR
        send(sq, 100)
        assert passed(10 * MS)[0] < 5
        join(0)
        assert passed(MS)[0] > 90
        assert self.destroy(driver, group) == Status.OK

    def test_what_is_in_use_stays(self, make, element, driver):
        root = element()
        group = element(root, QUEUE_GROUP, 100)
        sq = make(qos_queue_group_id=group)
        for handle in (root, group):
            assert self.destroy(driver, handle) == Status.BAD_RES_STATE_ERR
        driver.must(Op.DESTROY_SQ, sqn=sq.sqn)
        assert self.destroy(driver, group) == self.destroy(driver, root) == Status.OK

    @pytest.mark.parametrize(
        ("fields", "status"),
        [
            ({"scheduling_hierarchy": 2}, Status.BAD_PARAM_ERR),
            ({"scheduling_context": {"element_type": 1}}, Status.BAD_PARAM_ERR),
            ({"scheduling_context": {"element_attributes": 2 << 16}}, Status.BAD_PARAM_ERR),
            ({"scheduling_context": {"bw_share": 101}}, Status.BAD_PARAM_ERR),
            ({"scheduling_context": {"parent_element_id": 77}}, Status.BAD_RES_ERR),
        ],
    )
    def test_elements_that_cannot_be(self, driver, hca, fields, status):
        command = {"scheduling_hierarchy": NIC, **fields}
        assert driver.command(Op.CREATE_SCHEDULING_ELEMENT, **command).status == status
        assert not hca.scheduling_elements

    def test_the_type_of_a_tsar_is_nothing_to_a_group(self, driver, element):
        assert element(element(), QUEUE_GROUP, element_attributes=2 << 16)

    def test_below_a_group(self, driver, element):
        group = element(element(), QUEUE_GROUP)
        answer = driver.command(
            Op.CREATE_SCHEDULING_ELEMENT, scheduling_hierarchy=NIC,
            scheduling_context={"parent_element_id": group},
        )  # fmt: skip
        assert answer.status == Status.BAD_PARAM_ERR

    def test_too_deep(self, driver, element):
        parent = 0
        for _ in range(MAX_DEPTH):
            parent = element(parent)
        answer = driver.command(
            Op.CREATE_SCHEDULING_ELEMENT, scheduling_hierarchy=NIC,
            scheduling_context={"parent_element_id": parent},
        )  # fmt: skip
        assert answer.status == Status.LIM_ERR

    def test_a_node_is_no_group(self, driver, node, element):
        cq = CompletionQueue(node)
        for handle, status in ((element(), Status.BAD_PARAM_ERR), (99, Status.BAD_RES_ERR)):
            fields, _ = sq_fields(driver, node.pdn, cq.cqn, qos_queue_group_id=handle)
            assert driver.command(Op.CREATE_SQ, **fields).status == status

    def test_field_that_cannot_be_changed(self, make):
        sq = make()
        answer = sq.node.driver.command(
            Op.MODIFY_SQ, sqn=sq.sqn, sq_state=sq.state, modify_bitmask=2, ctx={"state": sq.state}
        )
        assert answer.status == Status.BAD_PARAM_ERR

    def test_bad_changes(self, driver, element):
        group = element(element(), QUEUE_GROUP, 10)
        assert self.modify(driver, group, 4) == Status.BAD_PARAM_ERR
        assert self.modify(driver, group, 1, bw_share=101) == Status.BAD_PARAM_ERR
        assert self.modify(driver, 99, 1, bw_share=1) == Status.BAD_RES_STATE_ERR


class TestTrafficClasses:
    """dcb maxrate (core/en_dcbnl.c: mlx5e_dcbnl_ieee_setmaxrate)."""

    def limit(self, driver, tclass, units, value):
        view = qos_regs.qetc_reg.new(port_number=1)
        entry = view.tc_configuration[tclass]
        entry.r, entry.max_bw_units, entry.max_bw_value = 1, units, value
        return driver.write_register(RegId.QETCR, bytes(view)).status

    def test_of_a_class(self, driver, make, send, passed):
        assert self.limit(driver, 3, MBPS_100, 1) == Status.OK
        slow, fast = make(prio=3 << 1), make(prio=0)
        send(slow, 300, 0)
        send(fast, 300, 1)
        found = passed(10 * MS)
        assert found[1] == 300
        assert 98 <= found[0] <= 113

    def test_for_all_queues_of_it_together(self, driver, make, send, passed):
        self.limit(driver, 3, MBPS_100, 1)
        for number in range(2):
            send(make(prio=3 << 1), 300, number)
        assert 98 <= sum(passed(10 * MS).values()) <= 116

    def test_of_the_class_of_a_priority(self, driver, make, send, passed):
        self.limit(driver, 3, MBPS_100, 1)
        sq = make(prio=5 << 1)
        view = qos_regs.qtct_reg.new(port_number=1, prio=5, tclass=3)
        assert driver.write_register(RegId.QTCT, bytes(view)).status == Status.OK
        send(sq, 300)
        assert passed(10 * MS)[0] <= 113

    def test_a_queue_changes_its_class(self, driver, make, send, passed):
        """As a raw packet queue pair that is modified (qp.c: modify_raw_packet_eth_prio)."""
        self.limit(driver, 3, MBPS_100, 1)
        sq = make(prio=0)
        for prio, fewest, most in ((3 << 1, 48, 63), (0, 120, 120)):
            tisn = sq.query().tis_num_0
            driver.must(Op.MODIFY_TIS, tisn=tisn, bitmask={"prio": 1}, ctx={"prio": prio})
            send(sq, 120)
            assert fewest <= passed(5 * MS)[0] <= most
            passed(10 * MS)

    def test_is_shown_and_ends(self, driver, make, send, passed):
        self.limit(driver, 3, GBPS, 2)
        found = driver.read_register(RegId.QETCR, qos_regs.qetc_reg, port_number=1)
        entry = found.tc_configuration[3]
        assert (entry.max_bw_units, entry.max_bw_value) == (GBPS, 2)
        assert self.limit(driver, 3, 0, 0) == Status.OK
        sq = make(prio=3 << 1)
        send(sq, 300)
        assert passed(MS)[0] == 300

    def test_unknown_units(self, driver):
        assert self.limit(driver, 3, 5, 1) == Status.BAD_PARAM_ERR

    def test_what_no_bit_selects(self, driver):
        view = qos_regs.qetc_reg.new(port_number=1)
        view.tc_configuration[3].max_bw_units = 5
        view.global_configuration.max_bw_units = MBPS_100
        assert driver.write_register(RegId.QETCR, bytes(view)).status == Status.OK
        view.global_configuration.r = 1
        assert driver.write_register(RegId.QETCR, bytes(view)).status == Status.BAD_PARAM_ERR
        view.global_configuration.max_bw_units = 0
        assert driver.write_register(RegId.QETCR, bytes(view)).status == Status.OK
