"""Sub-functions: from their allocation to their end, and what ends them in between."""

import pytest
from helpers.device.sub_functions import EVENTS, FRAME, MOST, NUMBER, Manager

from emu.device.cmdif.registry import COMMANDS
from emu.device.models.sub_functions import FIRST_NUMBER, LOG_BYTES
from emu.device.port.eth.frame import Frame
from emu.driver.command.bar import FunctionBar
from emu.driver.command.driver import Driver
from emu.driver.ethernet.buffers import Buffers
from emu.driver.ethernet.flow_fields import match_misc, to_tir, to_vport
from emu.driver.ethernet.flows import Flows
from emu.driver.ethernet.interfaces import alloc_td, create_direct_tir, create_tis
from emu.driver.ethernet.receive_queue import ReceiveQueue
from emu.driver.ethernet.send_queue import SendQueue
from layouts.enums.caps import CapType
from layouts.enums.cmd import Op, Status
from layouts.enums.eqe import EventType
from layouts.enums.flow_table import FlowTableType
from layouts.enums.hca import VhcaState
from layouts.function.caps import cmd_hca_cap_2


@pytest.fixture
def manager(clock):
    return Manager(clock)


def refused(status, driver, op, **fields):
    assert driver.command(op, **fields).status == status


def test_a_life(manager):
    must, steps = manager.driver.must, []

    def then(state):
        assert manager.told() == [NUMBER]
        assert manager.state() is state
        manager.arm()
        steps.append(state)

    manager.arm()
    assert manager.state() is VhcaState.INVALID
    must(Op.ALLOC_SF, function_id=NUMBER)
    then(VhcaState.ALLOCATED)
    manager.modify(sw_function_id=88)
    must(Op.ENABLE_HCA, function_id=NUMBER)
    then(VhcaState.ACTIVE)
    driver = manager.driver_of()
    then(VhcaState.IN_USE)
    must(Op.DISABLE_HCA, function_id=NUMBER)
    then(VhcaState.TEARDOWN_REQUEST)
    driver.remove()
    then(VhcaState.ALLOCATED)
    answer = must(Op.QUERY_VHCA_STATE, function_id=NUMBER).vhca_state_context
    assert (answer.sw_function_id, answer.arm_change_event) == (88, 1)
    must(Op.DEALLOC_SF, function_id=NUMBER)
    assert manager.state() is VhcaState.INVALID
    assert [*manager.hca.adapter.vhcas] == [0]
    assert not manager.hca.ledger.accounts.get("sub-functions")


def test_a_driver_that_goes_by_itself_may_come_back(manager):
    manager.active()
    for _ in range(2):
        driver = manager.driver_of()
        assert manager.state() is VhcaState.IN_USE
        driver.remove()
        assert manager.state() is VhcaState.ACTIVE
    manager.driver.must(Op.DISABLE_HCA, function_id=NUMBER)
    assert manager.state() is VhcaState.ALLOCATED


def test_one_event_for_each_arming(manager):
    manager.arm()
    manager.active()
    assert manager.told() == [NUMBER], "it looks, and arms again"
    manager.arm()
    assert manager.told() == [NUMBER], "it has not seen the present state"
    manager.state()
    manager.arm()
    assert not manager.told()
    manager.modify(arm_change_event=0)
    manager.driver_of()
    assert not manager.told()


@pytest.mark.parametrize("absent", [[*EVENTS], ["vhca_state"], [*EVENTS][1:]], ids=len)
def test_without_the_capabilities_nobody_is_told(clock, absent):
    manager = Manager(clock)
    manager.driver.remove()
    manager.driver = Driver(FunctionBar(manager.function), manager.memory, manager.irqs)
    manager.driver.probe(**EVENTS | dict.fromkeys(absent, 0))
    manager.eqn = manager.driver.create_eq(events=[EventType.VHCA_STATE_CHANGE])
    manager.arm()
    manager.active()
    assert not manager.told()


def test_its_part_of_the_bar_is_there_while_it_exists(manager):
    function, bar = manager.function, manager.bar()
    gone = b"\xff" * 4
    assert function.bar_sizes[2] == MOST << LOG_BYTES
    assert bar.read(0, 4) == gone
    manager.driver.must(Op.ALLOC_SF, function_id=NUMBER)
    assert bar.read(0, 4) == function.bar_read(0, 0, 4), "the firmware's version"
    before = bar.read(0x10, 8)
    bar.write(0x10, b"\0\0\x12\0" * 2)
    assert bar.read(0x10, 8) == before, "nobody may begin yet"
    manager.driver.must(Op.ENABLE_HCA, function_id=NUMBER)
    assert bar.read(0, 4) == function.bar_read(0, 0, 4)
    assert manager.bar(NUMBER + 1).read(0, 4) == gone
    assert bar.read((1 << LOG_BYTES) - 2, 4) == gone, "across the end of the part"
    assert function.bar_read(2, (MOST << LOG_BYTES) - 2, 4) == gone
    function.config_write(4, bytes(2))
    assert bar.function.bar_read(2, NUMBER - FIRST_NUMBER << LOG_BYTES, 4) == gone


def test_a_driver_that_leaves_can_still_look_at_its_health(manager):
    """The driver's poll ends after DISABLE_HCA; all-ones would be a fatal error to it."""
    manager.active()
    driver = manager.driver_of()
    manager.driver.must(Op.DISABLE_HCA, function_id=NUMBER)
    driver.remove()
    assert manager.state() is VhcaState.ALLOCATED
    assert manager.bar().read(0x200 + 0x10, 4) != b"\xff" * 4
    manager.driver.must(Op.DEALLOC_SF, function_id=NUMBER)
    assert manager.bar().read(0x200 + 0x10, 4) == b"\xff" * 4


def test_its_driver_waits_until_it_may_begin(manager):
    manager.active()
    driver = manager.driver_of()
    manager.driver.must(Op.DISABLE_HCA, function_id=NUMBER)
    refused(Status.BAD_SYS_STATE_ERR, driver, Op.ENABLE_HCA)
    driver.remove()
    assert manager.state() is VhcaState.ALLOCATED


@pytest.mark.parametrize("number", [0x7FFF, FIRST_NUMBER + MOST, 1])
@pytest.mark.parametrize(
    "op",
    [
        *(Op.ALLOC_SF, Op.DEALLOC_SF, Op.QUERY_VHCA_STATE, Op.MODIFY_VHCA_STATE),
        *(Op.ENABLE_HCA, Op.DISABLE_HCA),
    ],
)
def test_numbers_that_are_no_sub_functions(manager, op, number):
    refused(Status.BAD_PARAM_ERR, manager.driver, op, function_id=number)


@pytest.mark.parametrize(
    "op", [Op.QUERY_VHCA_STATE, Op.MODIFY_VHCA_STATE, Op.ENABLE_HCA, Op.DISABLE_HCA]
)
def test_there_is_no_embedded_cpu(manager, op):
    fields = {"function_id": NUMBER, "embedded_cpu_function": 1}
    refused(Status.BAD_PARAM_ERR, manager.driver, op, **fields)


def test_what_its_state_does_not_allow(manager):
    driver = manager.driver
    refused(Status.BAD_RES_STATE_ERR, driver, Op.DEALLOC_SF, function_id=NUMBER)
    refused(Status.BAD_PARAM_ERR, driver, Op.ENABLE_HCA, function_id=NUMBER)
    refused(
        Status.BAD_RES_STATE_ERR, driver, Op.MODIFY_VHCA_STATE, function_id=NUMBER,
        vhca_state_field_select={"sw_function_id": 1},
    )  # fmt: skip
    manager.active()
    refused(Status.BAD_RES_STATE_ERR, driver, Op.ALLOC_SF, function_id=NUMBER)
    refused(Status.BAD_SYS_STATE_ERR, driver, Op.ENABLE_HCA, function_id=NUMBER)
    for _ in range(3):  # active, in use, asked to leave
        refused(Status.BAD_RES_STATE_ERR, driver, Op.DEALLOC_SF, function_id=NUMBER)
        if manager.state() is VhcaState.ACTIVE:
            manager.driver_of()
        else:
            driver.must(Op.DISABLE_HCA, function_id=NUMBER)


def test_who_has_none(manager):
    """A sub-function has no sub-functions of its own."""
    driver = manager.active().driver_of()
    for op in (Op.ALLOC_SF, Op.DEALLOC_SF, Op.QUERY_VHCA_STATE, Op.MODIFY_VHCA_STATE):
        refused(Status.BAD_PARAM_ERR, driver, op, function_id=NUMBER)
    refused(Status.BAD_PARAM_ERR, driver, Op.ENABLE_HCA, function_id=NUMBER)


def test_the_manager_chooses_its_capabilities(manager):
    """As `devlink port function set roce disable` does (core/eswitch_offloads.c)."""
    manager.driver.must(Op.ALLOC_SF, function_id=NUMBER)
    other = {"other_function": 1, "function_id": NUMBER}
    page = bytearray(manager.driver.must(Op.QUERY_HCA_CAP, op_mod=0, **other).capability)
    caps = type(manager.driver.caps)(page)
    assert caps.roce
    assert caps.vhca_id == manager.hca.adapter.by_vport(NUMBER).number
    caps.roce = 0
    manager.driver.must(Op.SET_HCA_CAP, op_mod=0, capability=bytes(page), **other)
    manager.driver.must(Op.ENABLE_HCA, function_id=NUMBER)
    assert not manager.driver_of().caps.roce


def event_queues(manager, number=None):
    """How many event queues it may have; set first if there is a number."""
    other = {"other_function": 1, "function_id": NUMBER}
    query = {"op_mod": CapType.GENERAL_2 << 1, **other}
    page = bytearray(manager.driver.must(Op.QUERY_HCA_CAP, **query).capability)
    caps = cmd_hca_cap_2.view(page)
    if number is not None:
        caps.max_num_eqs_24b, caps.sf_eq_usage = number, 1
        return manager.driver.command(Op.SET_HCA_CAP, capability=bytes(page), **query).status
    return caps.max_num_eqs_24b, caps.sf_eq_usage


def test_the_manager_chooses_its_event_queues(manager):
    """As `devlink port function set max_io_eqs`, which reads and sets the maximum."""
    manager.driver.must(Op.ALLOC_SF, function_id=NUMBER)
    most, used = event_queues(manager)
    assert (most, used) == (32, 1)
    assert event_queues(manager, most + 1) == Status.BAD_PARAM_ERR
    for number in (4, most, 12):
        assert event_queues(manager, number) == Status.OK
        assert event_queues(manager) == (number, 1)
    manager.driver.must(Op.ENABLE_HCA, function_id=NUMBER)
    driver = manager.driver_of()
    made = [driver.create_eq(log_size=2) for _ in range(12)]
    assert len(set(made)) == 12
    with pytest.raises(AssertionError, match="LIM_ERR"):
        driver.create_eq(log_size=2)


def test_frames_between_it_and_the_cable(manager):
    """By the forwarding database, as the slow path leads them."""
    node = manager.active().node_of()
    fdb = Flows(manager.driver, FlowTableType.FDB)
    table = fdb.table(0)
    criteria = match_misc(source_port=0xFFFF)
    group = fdb.group(table, 0, 3, enable=2, match_criteria=criteria)
    for index, (source, to) in enumerate(((NUMBER, 0xFFFF), (0xFFFF, NUMBER))):
        value = match_misc(source_port=source)
        fdb.entry(table, index, group, to_vport(to), value=value)
    fdb.set_root(table)
    rq = ReceiveQueue(node)
    buffers = Buffers(rq)
    flows = Flows(node.driver)
    root = flows.table(1)
    td = alloc_td(node.driver)
    to = to_tir(create_direct_tir(node.driver, td, rq.rqn))
    flows.entry(root, 0, flows.group(root, 0, 0), to)
    flows.set_root(root)
    SendQueue(node, tisn=create_tis(node.driver, td)).send(FRAME)
    node.settle()
    assert [frame.data for frame in manager.wire.sent()] == [FRAME]
    manager.hca.switch.receive(Frame(FRAME))
    node.settle()
    assert node.hca.nic_vport.received.packets == 1
    assert not manager.hca.nic_vport.received.packets
    assert buffers


def test_one_that_has_failed_does_nothing_more(manager, caplog):
    """It is not reset, as its manager is not: its driver finds that out by itself."""
    manager.active()
    driver, bar = manager.driver_of(), manager.bar()
    hca = manager.hca.adapter.by_vport(NUMBER).node
    command = COMMANDS[Op.ALLOC_PD]
    driver.submit(bytes(command.layout_in.new(opcode=Op.ALLOC_PD)), command.layout_out.size, 2)
    driver.write32(0x018, 1 << 2)
    hca.health.fail()
    address, before = bar.read(0x014, 4), manager.memory.contents()
    bar.write(0x014, bytes((address[0] ^ 1, *address[1:])))
    while manager.function.run():
        pass
    assert bar.read(0x014, 4) == address
    assert manager.memory.contents() == before
    caplog.clear()


def ended(manager):
    assert [*manager.hca.adapter.vhcas] == [0]
    assert not len(manager.function.parts)
    assert not manager.hca.ledger.accounts.get("sub-functions")
    assert manager.bar().read(0, 4) == b"\xff" * 4


@pytest.mark.parametrize("is_in_use", [False, True])
@pytest.mark.parametrize("how", ["reset", "flr", "teardown", "shut down", "failure"])
def test_whatever_ends_the_manager_ends_them(manager, how, is_in_use, caplog):
    manager.active()
    if is_in_use:
        node = manager.node_of()
        node.region(1 << 16)
    function = manager.function
    if how == "reset":
        function.reset()
    elif how == "flr":
        function.restart("flr")
    elif how == "teardown":
        manager.driver.must(Op.TEARDOWN_HCA)
    elif how == "shut down":
        manager.driver.must(Op.TEARDOWN_HCA, profile=1)
    else:
        try:
            raise RuntimeError("a bug")
        except RuntimeError:
            function.hca.health.fail()
        caplog.clear()
        function.restart("firmware")
    ended(manager)
    function.run()
    manager.probe()
    manager.active()
    manager.driver_of().remove()
    assert manager.state() is VhcaState.ACTIVE


def test_a_bug_in_one_stops_it_alone(manager, caplog):
    node = manager.active().node_of()
    try:
        raise RuntimeError("a bug")
    except RuntimeError:
        node.hca.health.fail()
    caplog.clear()
    assert node.hca.health.has_failed
    assert not manager.hca.health.has_failed
    manager.driver.must(Op.DISABLE_HCA, function_id=NUMBER)
    assert manager.state() is VhcaState.TEARDOWN_REQUEST
    manager.active(NUMBER + 1)
    manager.driver_of(NUMBER + 1).remove()


def test_all_at_once(manager):
    """Each with objects of its own, some in use; then they end in another order."""
    numbers = range(FIRST_NUMBER, FIRST_NUMBER + MOST)
    for number in numbers:
        manager.active(number)
    drivers = {number: manager.driver_of(number) for number in numbers[::8]}
    pds = [driver.alloc_pd() for driver in drivers.values()]
    assert len(set(pds)) == 1, "numbers are each function's own"
    assert len(manager.hca.adapter.vhcas) == MOST + 1
    for driver, pd in zip(drivers.values(), pds):
        driver.must(Op.DEALLOC_PD, pd=pd)
    for number in reversed(numbers):
        manager.driver.must(Op.DISABLE_HCA, function_id=number)
        if number in drivers:
            drivers[number].remove()
        manager.driver.must(Op.DEALLOC_SF, function_id=number)
    ended(manager)


def test_all_share_what_the_guest_may_use(manager):
    manager.hca.ledger.limit = manager.hca.ledger.used + (1 << 20)
    node = manager.active().node_of()
    pds = 0
    while node.driver.command(Op.ALLOC_PD).status == Status.OK:
        pds += 1
        assert pds < 1 << 14
    assert manager.driver.command(Op.ALLOC_PD).status == Status.LIM_ERR
