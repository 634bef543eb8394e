"""How short a command may be: reserved bytes at its end, and an open field's rest, may be missing.

The lengths of the boot driver are those of iPXE's golan.c, which knows structures of its own.
"""

import pytest

from emu.device.cmdif.registry import COMMANDS
from emu.driver.command.bar import FunctionBar
from emu.driver.command.driver import Driver
from layouts.enums.caps import CapMode, CapType
from layouts.enums.cmd import Op, Status
from layouts.enums.eqe import EventType
from layouts.enums.qp import QpState
from layouts.function import caps, vport

GENERAL = CapType.GENERAL << 1
BOOT_CAPABILITY_BYTES = 256
BOOT_MODIFY_QP_BYTES = 256
BOOT_VPORT_CONTEXT_BYTES = 208
HEADER_BYTES = 16


@pytest.mark.parametrize("command", COMMANDS.values(), ids=lambda command: command.name)
def test_what_is_missing_counts_as_zero(pair, command):
    """The shortest command does what the whole one does, filled with zeros."""
    whole = bytes(command.layout_in.new(opcode=command.op).buf)
    short = whole[: command.min_in]
    answers = [
        node.driver.execute(data, length)
        for node, data, length in (
            (pair[0], whole, command.layout_out.size),
            (pair[1], short, command.min_out),
        )
    ]
    (delivery, answer), (same_delivery, same) = answers
    assert (delivery, answer[:8]) == (same_delivery, same[:8])  # status and syndrome


@pytest.mark.parametrize(
    ("op", "min_in", "min_out"),
    [
        (Op.SET_HCA_CAP, 16, 16),
        (Op.INIT_HCA, 16, 16),
        (Op.CREATE_FLOW_TABLE, 36, 16),
        (Op.MODIFY_FLOW_TABLE, 36, 16),
        (Op.QUERY_HCA_CAP, 16, 16),
        (Op.RST2INIT_QP, 256, 16),
        (Op.CREATE_CQ, 272, 16),
        (Op.CREATE_QP, 272, 16),
        (Op.ENABLE_HCA, 16, 12),
        (Op.QUERY_HCA_VPORT_CONTEXT, 16, 16),
        (Op.QUERY_SPECIAL_CONTEXTS, 16, 16),
    ],
)
def test_least_lengths(op, min_in, min_out):
    """Input up to the last named field, or to where a list begins; output as short as inline."""
    assert (COMMANDS[op].min_in, COMMANDS[op].min_out) == (min_in, min_out)


def test_front_of_a_long_answer(driver):
    data = bytes(vport.query_hca_vport_context_in.new(opcode=Op.QUERY_HCA_VPORT_CONTEXT).buf)
    whole = driver.execute(data, 528)[1]
    assert any(whole)
    assert driver.execute(data, HEADER_BYTES + BOOT_VPORT_CONTEXT_BYTES)[1] == whole[:224]


class TestBootDriver:
    """The commands of iPXE's driver, in its order and with its lengths."""

    @pytest.fixture
    def cold(self, function, memory, irqs):
        driver = Driver(FunctionBar(function), memory, irqs)
        driver.attach()
        driver.must(Op.ENABLE_HCA)
        return driver

    def capabilities(self, driver):
        query = bytes(caps.query_hca_cap_in.new(opcode=Op.QUERY_HCA_CAP, op_mod=1).buf)
        delivery, answer = driver.execute(query, HEADER_BYTES + BOOT_CAPABILITY_BYTES)
        assert (delivery, answer[0]) == (0, 0)
        return bytearray(answer[HEADER_BYTES:])

    def choose(self, driver, page):
        header = cmd_header(Op.SET_HCA_CAP, GENERAL)
        return driver.execute(header + bytes(page), 16)[1]

    def test_capabilities(self, cold):
        page = self.capabilities(cold)
        chosen = caps.cmd_hca_cap.view(page.ljust(caps.cmd_hca_cap.size, b"\0"))
        chosen.cmdif_checksum, chosen.log_uar_page_sz, chosen.log_max_qp = 0, 0, 1
        assert self.choose(cold, chosen.buf[:BOOT_CAPABILITY_BYTES])[0] == Status.OK
        now = cold.must(Op.QUERY_HCA_CAP, op_mod=GENERAL | CapMode.CUR).capability
        assert now[:BOOT_CAPABILITY_BYTES] == bytes(chosen.buf[:BOOT_CAPABILITY_BYTES])
        assert not any(now[BOOT_CAPABILITY_BYTES:])

    def test_capability_above_its_maximum_stays_refused(self, cold):
        page = self.capabilities(cold)
        caps.cmd_hca_cap.view(page.ljust(caps.cmd_hca_cap.size, b"\0"))
        page[0x13] |= 0x1F  # log_max_qp
        assert self.choose(cold, page)[0] == Status.BAD_PARAM_ERR

    def test_initialization(self, cold):
        """It knows no sw_owner_id, and asks for one queue pair (log_max_qp 0) but makes three."""
        page = self.capabilities(cold)
        chosen = caps.cmd_hca_cap.view(page.ljust(caps.cmd_hca_cap.size, b"\0"))
        chosen.log_max_qp = 0
        assert self.choose(cold, chosen.buf[:BOOT_CAPABILITY_BYTES])[0] == Status.OK
        header = bytes(COMMANDS[Op.INIT_HCA].layout_in.new(opcode=Op.INIT_HCA).buf[:HEADER_BYTES])
        assert cold.execute(header, HEADER_BYTES)[1][0] == Status.OK
        cold.uar = cold.must(Op.ALLOC_UAR).uar
        pdn, cqn = cold.alloc_pd(), cold.create_cq(cold.create_eq())
        assert len({cold.create_qp(pdn, cqn, st=2, rlky=1) for _ in range(3)}) == 3

    def test_queue_pair_to_work(self, driver, function):
        """A datagram queue pair's way, each step 256 bytes long; it sets no MTU."""
        driver.eqs[driver.create_eq(events=[EventType.PORT_CHANGE])].arm()
        pdn, cqn = driver.alloc_pd(), driver.create_cq(driver.create_eq())
        qpn = driver.create_qp(pdn, cqn, st=2, rlky=1, fre=1)
        path = {"vhca_port_num": 1}
        for op, mask, context in (
            (Op.RST2INIT_QP, 0, {"pm_state": 3, "st": 2, "q_key": 0x1234,
                                 "primary_address_path": path}),
            (Op.INIT2RTR_QP, 0b111010, {}),
            (Op.RTR2RTS_QP, 0b10001101010, {"next_send_psn": 1}),
        ):  # fmt: skip
            layout = COMMANDS[op].layout_in
            view = layout.new(opcode=op, qpn=qpn, opt_param_mask=mask, qpc=context)
            delivery, answer = driver.execute(bytes(view.buf)[:BOOT_MODIFY_QP_BYTES], 16)
            assert (delivery, answer[0]) == (0, Status.OK), op
        assert driver.must(Op.QUERY_QP, qpn=qpn).qpc.state == QpState.RTS
        assert function.hca.qps.get(qpn).max_message == 4096


def cmd_header(op, op_mod):
    return bytes(caps.set_hca_cap_in.new(opcode=op, op_mod=op_mod).buf[:HEADER_BYTES])
