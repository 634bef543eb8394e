"""Rights of a virtual function: nothing that it does changes the port, or another function."""

from random import Random

import pytest
from helpers.device.adapters import Member, made_infiniband, made_with_switch
from helpers.device.shared_fdb import VPORT, SharedBoard
from helpers.device.snapshot import snapshot
from helpers.device.sriov import Sriov

from emu.device.cmdif.registry import COMMANDS
from emu.device.objects.object import Object
from emu.device.port.eth.no_wire import NoWire
from emu.device.state.hca import HcaState
from emu.server.net.ib.local import LocalFabric
from firmware_cmds.regs.eth_regs import REGISTERS as ETHERNET
from firmware_cmds.regs.ib_regs import REGISTERS as INFINIBAND
from firmware_cmds.regs.reg import REGISTERS
from layouts.enums.caps import PortType
from layouts.enums.cmd import Op, Status
from layouts.enums.regs import RegId
from layouts.function.caps import cmd_hca_cap

pytestmark = pytest.mark.hostile
VF = 2
STATES = ("emu.device.port", "emu.device.adapter", "emu.device.state.eswitch")
ENDINGS = (Op.TEARDOWN_HCA, Op.DISABLE_HCA, Op.ENABLE_HCA)


def deep(value):
    """The values of an object of the port or the adapter, without what it refers to elsewhere."""
    if isinstance(value, Object):
        return (value.kind, value.handle)
    if isinstance(value, dict):
        return {deep(key): deep(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return tuple(map(deep, value))
    if type(value).__module__.startswith(STATES) and not isinstance(value, int):
        names = [name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ())]
        return {name: deep(getattr(value, name, None)) for name in names}
    return value if isinstance(value, (int, str, bytes)) else type(value).__name__


class Pair:
    """A physical function and one of its virtual ones."""

    def __init__(self, clock, link):
        is_eth = link is PortType.ETH
        adapter = made_with_switch(NoWire()) if is_eth else made_infiniband()
        wire = None if is_eth else LocalFabric(clock)
        self.pf = Member(adapter.manager, clock, wire)
        adapter.add(1)
        self.vf = Member(adapter.add(VF), clock, wire)
        self.adapter = adapter
        self.registers = REGISTERS | (ETHERNET if is_eth else INFINIBAND)

    def shared(self):
        """All that a virtual function must leave as it is."""
        adapter, pf = self.adapter, self.pf.hca
        eswitch = pf.eswitch
        return {
            "function": snapshot(pf), "port": deep(pf.port), "clock": deep(adapter.real_time),
            "lag": deep(adapter.board.lag), "forwarded": deep(adapter.forwarded),
            "switch": eswitch and deep((eswitch.l2_table, eswitch._vports)),
            "functions": [
                (one.may_begin, one.vf_enabled, deep(one.hca_vport))
                for one in adapter.vhcas.values()
            ],
        }  # fmt: skip


@pytest.fixture(params=[PortType.ETH, PortType.IB], ids=["ethernet", "infiniband"])
def pair(request, clock):
    return Pair(clock, request.param)


def differences(before, after):
    return {name: (before[name], after[name]) for name in before if before[name] != after[name]}


def test_registers_of_the_port_and_the_board(pair):
    """PMTU excepted: the port's MTU is the largest one requested."""
    random = Random(3)
    before = pair.shared()
    for number, register in pair.registers.items():
        if number == RegId.PMTU:
            continue
        names = {field.name for field in register.layout.fields}
        for _ in range(60):
            size = register.layout.size
            data = bytearray(random.choices(range(256), weights=[255] + [1] * 255, k=size))
            view = register.layout.view(data)
            for name in names.intersection(("local_port", "port")):
                setattr(view, name, 1)
            for op_mod in (0, 1):
                pair.vf.driver.command(
                    Op.ACCESS_REG, op_mod=op_mod, register_id=number, extra=bytes(data),
                    out_extra=size,
                )  # fmt: skip
    assert differences(before, pair.shared()) == {}


def test_commands_with_random_fields(pair):
    """All commands but those that end the function itself."""
    random = Random(7)
    before = pair.shared()
    for op, command in COMMANDS.items():
        if op in ENDINGS or op == Op.ACCESS_REG:
            continue
        for _ in range(12):
            size = max(command.layout_in.size, 16)
            data = bytearray(random.choices(range(256), weights=[255] + [1] * 255, k=size))
            data[:8] = int(op).to_bytes(2, "big") + bytes(6)
            pair.vf.driver.execute(bytes(data), command.layout_out.size + 64)
    assert differences(before, pair.shared()) == {}


FLAGS = (
    "other_vport", "other_function", "other_eswitch", "embedded_cpu_function", "ec_vf_function",
)  # fmt: skip
NUMBERS = (
    "function_id", "vport_number", "eswitch_owner_vhca_id", "vhca_id", "group_id", "other_vhca_id",
)  # fmt: skip


@pytest.mark.parametrize("link", [PortType.ETH, PortType.IB])
@pytest.mark.parametrize("other", [0, 2, 3, 0xFFFF])
def test_every_command_that_names_another_function(clock, link, other):
    """From a VF: its PF, another VF, a disabled VF, and the uplink; 0 without a flag is itself."""
    sriov = Sriov(clock, name="connectx6" if link is PortType.IB else "connectx6dx", link=link)
    _, (driver, _) = sriov.probed(2)
    others = [sriov.pf, *sriov.vfs[1:]]
    before = [snapshot(one.function.hca) for one in others]
    named = 0
    for op, command in COMMANDS.items():
        widths = {field.name: field.width for field in command.layout_in.fields}
        flags = {name: 1 for name in FLAGS if name in widths}
        numbers = {
            name: other & (1 << widths[name]) - 1 for name in NUMBERS if name in widths
        }  # fmt: skip
        if flags or (numbers and other):
            named += 1
            answer = driver.command(op, **flags, **numbers)
            assert answer.status in (Status.BAD_PARAM_ERR, Status.BAD_RES_ERR), op
    assert named > 25
    assert [snapshot(one.function.hca) for one in others] == before


def test_a_physical_function_reaches_only_its_own(clock):
    """Both ports of a board have virtual functions of the same number."""
    board = SharedBoard(clock)
    first, second = board.ports
    before = snapshot(second.other.hca)
    mac = {"mac_addr_47_32": 0x0200, "mac_addr_31_0": 7}
    other = {"other_vport": 1, "vport_number": VPORT}
    first.driver.must(
        Op.MODIFY_NIC_VPORT_CONTEXT, field_select={"permanent_address": 1},
        nic_vport_context={"permanent_address": mac}, **other,
    )  # fmt: skip
    page = first.driver.must(Op.QUERY_HCA_CAP, other_function=1, function_id=VPORT).capability
    assert cmd_hca_cap.view(page).vhca_id == first.other.hca.vhca.number
    first.driver.must(Op.DISABLE_HCA, function_id=VPORT)
    assert first.other.hca.state is HcaState.DISABLED
    assert snapshot(second.other.hca) == before
    first.driver.must(Op.TEARDOWN_HCA)
    assert second.other.hca.state is HcaState.INITIALIZED
