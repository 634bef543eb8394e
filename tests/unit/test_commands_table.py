"""The registry of commands: its README, its structures and their names."""

from pathlib import Path

import pytest
from helpers.each import for_each

from emu.device.cmdif.registry import Command, command
from firmware_cmds import TABLE
from firmware_cmds.objects.pd import alloc_pd
from firmware_cmds.table import markdown
from layouts.enums.cmd import Op
from layouts.registry import structures

README = Path(__file__).parents[2] / "firmware_cmds" / "README.md"
OTHER_NAMES = {
    Op.ACCESS_REG: "access_register",
    Op.SQD_RTS_QP: "sqd2rts_qp",
    Op._2ERR_QP: "qp_2err",
    Op._2RST_QP: "qp_2rst",
    Op.SET_FLOW_TABLE_ENTRY: "set_fte",
    Op.QUERY_FLOW_TABLE_ENTRY: "query_fte",
    Op.DELETE_FLOW_TABLE_ENTRY: "delete_fte",
}
"""Where mlx5_ifc.h calls the structures otherwise than the opcode."""


ROWS = markdown(TABLE).splitlines()

every_command = for_each({entry.name: entry for entry in TABLE.values()})


def test_readme_is_current():
    assert README.read_text() == markdown(TABLE), "run scripts/gen-commands-table"


@every_command
def test_readme_has_a_line_for_each_command(entry):
    (line,) = [line for line in ROWS if f"| {entry.op:#05x} |" in line]
    assert f"| {entry.name} |" in line
    assert entry.layout_in.__name__ in line


@every_command
def test_every_handler_says_what_it_does(entry):
    assert entry.handler.__doc__


@every_command
def test_structures_carry_the_opcodes_name(entry):
    name = OTHER_NAMES.get(entry.op, entry.op.name.lower())
    assert (entry.layout_in.__name__, entry.layout_out.__name__) == (f"{name}_in", f"{name}_out")


@every_command
def test_table_is_keyed_by_opcode(entry):
    assert TABLE[entry.op] is entry
    assert isinstance(entry, Command)


@every_command
def test_table_is_read_only(entry):
    with pytest.raises(TypeError):
        TABLE[entry.op] = entry


@every_command
def test_opcode_has_one_handler(entry):
    with pytest.raises(ValueError, match="already has the handler"):
        command(entry.op)(alloc_pd)


PARTS = {"set_action_in", "add_action_in", "copy_action_in", "packet_reformat_context_in"}
"""Parts of other commands' inputs that mlx5_ifc.h names as if they were inputs themselves."""

STRUCTURES = structures()
INPUTS = [name for name in STRUCTURES if name.endswith("_in") and name not in PARTS]


@for_each({name: name for name in INPUTS})
def test_every_input_has_its_output(name):
    """And both begin as every command does."""
    given, answered = STRUCTURES[name], STRUCTURES[name.removesuffix("_in") + "_out"]
    assert given.fields[0].name == "opcode"
    assert {"op_mod"} <= {field.name for field in given.fields}
    assert [field.name for field in answered.fields[:2]] == ["status", "syndrome"]
