"""What the server reports of a function's switch, its sub-functions and its LAG."""

import json

from helpers.device.boards import Bonded, remap
from helpers.device.sub_functions import NUMBER, Manager

from emu.driver.ethernet.flows import Flows
from emu.server.service.adapter_view import adapter
from layouts.enums.cmd import Op
from layouts.enums.flow_table import FlowTableType


def test_sub_functions_as_far_as_they_have_come(clock):
    manager = Manager(clock)
    assert adapter(manager.hca) == {"switch": {"decides": False, "sfs": []}}
    manager.driver.must(Op.ALLOC_SF, function_id=NUMBER)
    manager.modify(sw_function_id=7)
    (one,) = adapter(manager.hca)["switch"]["sfs"]
    assert one == {"function_id": NUMBER, "sfnum": 7, "state": "ALLOCATED", "objects": 0}
    manager.driver.must(Op.ENABLE_HCA, function_id=NUMBER)
    manager.driver_of()
    (one,) = adapter(manager.hca)["switch"]["sfs"]
    assert one["state"] == "IN_USE"
    assert one["objects"] > 0
    json.dumps(one)
    assert adapter(manager.hca.adapter.by_vport(NUMBER).node) == {}


def test_an_fdb_decides(clock):
    manager = Manager(clock)
    flows = Flows(manager.driver, FlowTableType.FDB)
    flows.set_root(flows.table(0))
    assert adapter(manager.hca)["switch"]["decides"]


def test_the_lag_is_its_masters(clock):
    bonded = Bonded(clock)
    assert "lag" not in adapter(bonded.master.hca)
    bonded.master.driver.must(Op.CREATE_LAG, ctx=remap(2, 2))
    told = {"remap": [2, 2], "vports": False, "switches": False}
    assert adapter(bonded.master.hca)["lag"] == told
    bonded.master.driver.must(Op.CREATE_VPORT_LAG)
    assert adapter(bonded.master.hca)["lag"]["vports"]
    assert "lag" not in adapter(bonded.second.hca)
