"""Commands and registers that name a function, a vPort or a port: there is only the sender's."""

import pytest

from emu.device.cmdif.registry import COMMANDS
from layouts.enums.cmd import Op, Status

FUNCTION = {"other_function": 1}, {"function_id": 1}, {"embedded_cpu_function": 1}
VPORT = {"other_vport": 1}, {"vport_number": 1}, {"other_vport": 1, "vport_number": 0xFFFF}
PORT = {"port_num": 2}, {"vhca_port_num": 2}, {"port": 2}
TABLE = {"table_of_other_vport": 1}, {"table_vport_number": 3}


def named():
    """Every command that can name another function, in every way."""
    for op, command in COMMANDS.items():
        fields = {field.name for field in command.layout_in.fields}
        for other in (*FUNCTION, *VPORT, *PORT, *TABLE):
            if fields >= other.keys():
                yield pytest.param(op, other, id=f"{Op(op).name}-{'-'.join(other)}")


def test_the_ways_are_known():
    """As many commands name another function as the structures have it."""
    assert {Op(case.values[0]) for case in named()} >= {
        Op.ENABLE_HCA, Op.DISABLE_HCA, Op.QUERY_PAGES, Op.MANAGE_PAGES, Op.QUERY_HCA_CAP,
        Op.SET_HCA_CAP, Op.QUERY_VPORT_STATE, Op.MODIFY_VPORT_STATE, Op.QUERY_NIC_VPORT_CONTEXT,
        Op.QUERY_VPORT_COUNTER, Op.QUERY_Q_COUNTER, Op.QUERY_VNIC_ENV, Op.MAD_IFC,
        Op.CREATE_FLOW_TABLE, Op.SET_FLOW_TABLE_ROOT, Op.CREATE_FLOW_GROUP,
        Op.SET_FLOW_TABLE_ENTRY,
    }  # fmt: skip


@pytest.mark.parametrize(("op", "other"), [*named()])
def test_another_one_is_not_there(refused, op, other):
    if op in (Op.QUERY_HCA_CAP, Op.SET_HCA_CAP) and "other_function" not in other:
        other = {**other, "other_function": 1}
    refused(Status.BAD_PARAM_ERR, op, **other)


def test_number_without_flag_means_the_sender(driver):
    """core/fw.c fills function_id in only with other_function."""
    driver.must(Op.QUERY_HCA_CAP, op_mod=1, function_id=7)
