"""Registers through the gateway in configuration space, as iPXE and mstflint access them."""

import pytest
from helpers.device.pci import ConfigurationSpace
from helpers.random.examples import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from emu.driver.command.gateway import Gateway
from layouts.enums.regs import RegId
from layouts.icmd import icmd_query_cap_general, operation_tlv, reg_tlv
from layouts.regs import reg
from layouts.regs.component_regs import mgir_reg

SPACE_ICMD = 0x3
CONTROL, MAILBOX = 0, 0x10_0000
FLASH_REG_ACCESS = 0x9001
READ, WRITE = 1, 2
DONE, NO_SUCH_OPCODE, FAILED = 0, 1, 3
UNKNOWN_TLV, NO_SUCH_METHOD, BAD_PARAM = 3, 6, 7
OPERATION = {"type": 1, "len": 4}
HEADS = operation_tlv.size + reg_tlv.size


class Tool:
    """A program that has taken the interface."""

    def __init__(self, function):
        self._gateway = Gateway(ConfigurationSpace(function))
        self._gateway.set_space(SPACE_ICMD)

    def run(self, mailbox, opcode=FLASH_REG_ACCESS):
        """The command's status and the mailbox afterwards."""
        gateway = self._gateway
        for at in range(0, len(mailbox), 4):
            gateway.write(MAILBOX + at, int.from_bytes(mailbox[at : at + 4], "big"))
        gateway.write(CONTROL, opcode << 16 | 1)
        status = gateway.read(CONTROL) >> 8 & 0xFF
        words = [gateway.read(MAILBOX + at) for at in range(0, len(mailbox), 4)]
        return status, b"".join(word.to_bytes(4, "big") for word in words)

    def access(self, method, register, data, *, words=None, **wrong):
        """The operation's status, and the register."""
        operation = operation_tlv.new(
            **OPERATION | {"register_id": register, "method": method, "class": 1} | wrong
        )
        whole = (reg_tlv.size + len(data)) // 4
        part = reg_tlv.new(type=3, len=whole if words is None else words)
        status, mailbox = self.run(bytes(operation.buf) + bytes(part.buf) + data)
        assert status == DONE
        answer = operation_tlv.view(mailbox)
        assert answer.r == 1
        return answer.status, mailbox[HEADS:]


@pytest.fixture
def tool(function):
    return Tool(function)


def ptys(**fields):
    return bytes(reg.ptys_reg.new(local_port=1, proto_mask=1, **fields).buf)


@pytest.mark.parametrize("state", ["cold", "driver"])
def test_a_register_is_read_and_written(tool, state, request):
    """Before a driver has enabled the HCA, and beside one."""
    request.getfixturevalue(state)
    status, data = tool.access(READ, RegId.PTYS, ptys())
    assert (status, reg.ptys_reg.view(data).ib_proto_oper) == (0, 64)
    assert tool.access(WRITE, RegId.PTYS, ptys(ib_proto_admin=1))[0] == 0
    _, data = tool.access(READ, RegId.PTYS, ptys())
    assert reg.ptys_reg.view(data).ib_proto_oper == 1


def test_every_register_is_in_reach(tool):
    """mstlink and mstreg give up without this (mlxreg_lib.cpp: isAccessRegisterSupported)."""
    status, mailbox = tool.run(bytes(8), opcode=0x8400)
    assert status == DONE
    assert icmd_query_cap_general.view(bytearray(mailbox)).allow_icmd_access_reg_on_all_registers


def test_a_tool_learns_what_adapter_it_is(tool, function):
    """mstlink reads this first."""
    status, data = tool.access(READ, RegId.MGIR, bytes(mgir_reg.size))
    found, model = mgir_reg.view(bytearray(data)), function.model
    assert (status, found.hw_dev_id, found.num_ports) == (0, model.hw_id, 1)
    assert found.device_id == model.identity.device_id
    assert found.psid.rstrip(b"\0") == model.psid.encode()
    version = found.extended_major, found.extended_minor, found.extended_sub_minor
    assert version == (model.fw_major, model.fw_minor, model.fw_subminor)


def test_what_is_refused(tool):
    assert tool.run(bytes(4), opcode=0x8007)[0] == NO_SUCH_OPCODE
    assert tool.access(READ, 0xFFFF, ptys())[0] == BAD_PARAM
    assert tool.access(WRITE, RegId.PTYS, ptys(ib_proto_admin=0x8000))[0] == BAD_PARAM
    assert tool.access(3, RegId.PTYS, ptys())[0] == NO_SUCH_METHOD
    assert tool.access(READ, RegId.PTYS, ptys(), words=500)[0] == BAD_PARAM
    for wrong in ({"type": 2}, {"len": 5}):
        assert tool.access(READ, RegId.PTYS, ptys(), **wrong)[0] == UNKNOWN_TLV
    for words in (0, 1):
        assert tool.access(READ, RegId.PTYS, ptys(), words=words)[0] == UNKNOWN_TLV


@settings(max_examples=examples(200), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(mailbox=st.binary(min_size=20, max_size=256), opcode=st.sampled_from([0x9001, 0, 0xFFFF]))
def test_any_mailbox_has_a_status(tool, function, mailbox, opcode):
    tool.run(mailbox + bytes(-len(mailbox) % 4), opcode)
    assert not function.hca.health.has_failed


@pytest.mark.hostile
def test_a_function_that_has_failed_accesses_no_register(tool, function, caplog):
    """A tool that enables the port again would let peers reach a function that has stopped."""
    hca = function.hca
    assert hca.link.is_up
    try:
        raise RuntimeError("planned")
    except RuntimeError:
        hca.health.fail()
    caplog.clear()
    data = bytes(reg.paos_reg.new(local_port=1, ase=1, admin_status=1).buf)
    operation = operation_tlv.new(
        **OPERATION | {"register_id": RegId.PAOS, "method": WRITE, "class": 1}
    )
    part = reg_tlv.new(type=3, len=(reg_tlv.size + len(data)) // 4)
    status, _ = tool.run(bytes(operation.buf) + bytes(part.buf) + data)
    assert status == FAILED
    assert not hca.link.is_up
