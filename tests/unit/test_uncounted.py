"""Each counter that a driver can read is counted, or stands with its reason in one table."""

import re
from pathlib import Path

import pytest
from helpers.uncounted import UNCOUNTED

from emu.device.port.eth import counter_groups
from emu.device.port.eth.port import EthPort
from emu.device.port.eth.vport import NicVport
from emu.device.port.ib.port import IbPort
from layouts.function import congestion, vport
from layouts.objects import counter
from layouts.regs import reg
from layouts.wire import mads

ROOT = Path(__file__).parents[2]
HEADER = {"status", "syndrome", "port_select", "counter_select", "op_mod"}
WORDS = {
    word
    for package in ("emu", "firmware_cmds")
    for path in (ROOT / package).rglob("*.py")
    if "subnet" not in path.parts
    for word in re.findall(r"\w+", path.read_text())
}
"""Of the sources, without a simulated subnet's nodes: their counters are no function's."""
OF_CONGESTION = {
    word
    for path in ("emu/device/port/congestion.py", "firmware_cmds/function/congestion.py")
    for word in re.findall(r"\w+", (ROOT / path).read_text())
}
"""Of congestion control: one of its counters has a name that other parts use."""


def nic_vport():
    return NicVport(EthPort(), 0x0002_C903_00E5_0000, bytes.fromhex("0002c9e50000"))


def of_port(values):
    vport = nic_vport()
    return set(values(vport.port, vport.port_traffic()))


def of_vports():
    return {*nic_vport().counters(), *IbPort(1, 2, 32).counters()}


GROUPS = {
    prm.__name__: (prm, lambda values=values: of_port(values))
    for prm, values in counter_groups.GROUPS.values()
}
STRUCTURES = GROUPS | {
    "query_q_counter_out": (counter.query_q_counter_out, None),
    "vnic_diagnostic_statistics": (counter.vnic_diagnostic_statistics, None),
    "query_vport_counter_out": (vport.query_vport_counter_out, of_vports),
    "query_cong_statistics_out": (congestion.query_cong_statistics_out, lambda: OF_CONGESTION),
    "ib_port_cntrs_grp_data_layout": (reg.ib_port_cntrs_grp_data_layout, None),
    "pma_portcounters": (mads.pma_portcounters, None),
    "pma_portcounters_ext": (mads.pma_portcounters_ext, None),
}


@pytest.mark.parametrize("name", STRUCTURES)
def test_every_counter_is_counted_or_has_a_reason(name):
    prm, counted = STRUCTURES[name]
    fields = {re.sub(r"_(high|low)$", "", one.name) for one in prm.fields} - HEADER
    found = {one for one in fields if one in WORDS} if counted is None else counted()
    excused = [one for names in UNCOUNTED.get(name, {}).values() for one in names]
    assert len(excused) == len(set(excused))
    assert fields - found == set(excused)


def test_no_reason_is_about_something_else():
    assert set(UNCOUNTED) <= set(STRUCTURES)
