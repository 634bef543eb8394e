"""The counters of simulated ports: what a management packet for many of them costs."""

import pytest

from emu.device.port.ib.pma import ALL_PORTS
from emu.device.rounds.budget import Budget
from emu.device.rounds.costs import STEPS_PER_PORT_COUNTED
from emu.server.net.ib.subnet.nodes import built
from emu.server.net.ib.subnet.pma import CounterAgents
from emu.server.net.ib.subnet.routes import Routes
from emu.server.net.ib.subnet.topology import MAX_SWITCH_PORTS, parse
from layouts.wire.mads import (
    BASE_VERSION,
    MadStatus,
    Method,
    MgmtClass,
    PmaAttr,
    pma_mad,
    pma_portcounters,
)

pytestmark = pytest.mark.hostile

FILE = f"""
Switch {MAX_SWITCH_PORTS} "switch"
[1] "function0"[1]
Hca 1 "function0"
"""


@pytest.mark.parametrize(("port", "ports"), [(ALL_PORTS, MAX_SWITCH_PORTS), (1, 0)])
@pytest.mark.parametrize("method", [Method.GET, Method.SET])
def test_the_counters_of_all_ports_cost_as_many_steps(method, port, ports):
    cables, budget = built(parse(FILE), {}), Budget()
    agents = CounterAgents(Routes(cables, budget), budget)
    hdr = {
        "base_version": BASE_VERSION, "mgmt_class": MgmtClass.PERF_MGMT, "class_version": 1,
        "method": method, "attr_id": PmaAttr.PORT_COUNTERS,
    }  # fmt: skip
    asked = pma_mad.new(mad_hdr=hdr)
    counters = pma_portcounters.new(port_select=port, counter_select=0xFFFF)
    asked.data = bytes(counters).ljust(len(asked.data), b"\0")
    answer = agents.answer(cables.nodes[0], bytes(asked))
    assert pma_mad.view(bytearray(answer)).mad_hdr.status == MadStatus.SUCCESS
    assert budget.steps == ports * STEPS_PER_PORT_COUNTED
