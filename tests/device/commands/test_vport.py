"""The port as the driver asks for it: context, GID and P_Key tables, state, counters."""

import pytest

from emu.device.models import MODELS
from emu.device.port.ib.port import GID_TABLE_ENTRIES, PKEY_TABLE_ENTRIES
from emu.device.state.hca import HcaOptions
from emu.server.net.ib.local import LocalFabric
from layouts.enums.cmd import Op, Status
from layouts.enums.vport import CapMask1, PhysState, PortState

GUID = 0x0002_C903_00AB_CD01
NO_GUID = bytes.fromhex("fe80000000000000") + bytes(8)
"""An entry that is not in use has the subnet's prefix all the same."""
LINK_LOCAL_GID = bytes.fromhex("fe80000000000000") + GUID.to_bytes(8, "big")
QUERIES = (
    Op.QUERY_HCA_VPORT_CONTEXT,
    Op.MODIFY_HCA_VPORT_CONTEXT,
    Op.QUERY_HCA_VPORT_GID,
    Op.QUERY_HCA_VPORT_PKEY,
    Op.QUERY_VPORT_STATE,
    Op.QUERY_VPORT_COUNTER,
)


@pytest.fixture
def options():
    return HcaOptions(guid=GUID, lid=0x21)


def context(driver):
    return driver.must(Op.QUERY_HCA_VPORT_CONTEXT).hca_vport_context


def test_port_is_up_and_knows_who_it_is(driver):
    port = context(driver)
    assert (port.vport_state, port.port_state) == (PortState.ACTIVE, PortState.ACTIVE)
    assert port.port_physical_state == PhysState.LINK_UP
    assert (port.port_guid, port.node_guid, port.system_image_guid) == (GUID, GUID, GUID)
    assert (port.lid, port.lmc, port.grh_required) == (0x21, 0, 0)
    assert port.sm_lid


class Watched(LocalFabric):
    """A subnet that says which ports it has been told of."""

    def __init__(self, clock):
        super().__init__(clock)
        self.told = []

    def port_changed(self, node):
        self.told.append(node)
        super().port_changed(node)


@pytest.fixture
def wire(clock):
    return Watched(clock)


def test_new_capabilities_are_told_to_the_subnet(driver, function, wire):
    """Managers and SRP's initiators look for them in the records of other guests' ports."""
    wire.told.clear()
    for _ in range(2):
        driver.must(
            Op.MODIFY_HCA_VPORT_CONTEXT,
            hca_vport_context={
                "cap_mask1": CapMask1.SM, "cap_mask1_field_select": CapMask1.SM,
            },
        )  # fmt: skip
    assert wire.told == [function.hca]


@pytest.mark.parametrize(("name", "has_smi"), [("connectx6", 1), ("connectx6-vf", 0)])
def test_subnet_management_is_the_physical_functions(driver, function, name, has_smi):
    """Without it the driver sends no SMPs (hw/mad.c:can_do_mad_ifc, hw/wr.c:mlx5r_ib_post_send)."""
    function.hca.model = MODELS[name]
    assert context(driver).has_smi == has_smi


def test_stack_may_set_its_capability_bits(driver):
    """ib_cm and the SA client turn theirs on; the device's own stay as they are."""
    before = context(driver).cap_mask1
    assert context(driver).cap_mask1_field_select & CapMask1.CM_SUP
    change = {"cap_mask1": CapMask1.CM_SUP, "cap_mask1_field_select": CapMask1.CM_SUP}
    driver.must(Op.MODIFY_HCA_VPORT_CONTEXT, hca_vport_context=change)
    assert context(driver).cap_mask1 == before | CapMask1.CM_SUP
    change["cap_mask1"] = 0
    driver.must(Op.MODIFY_HCA_VPORT_CONTEXT, hca_vport_context=change)
    assert context(driver).cap_mask1 == before


def test_bits_that_are_not_selected_stay(driver):
    before = context(driver).cap_mask1
    change = {"cap_mask1": 0xFFFFFFFF, "cap_mask1_field_select": 0}
    driver.must(Op.MODIFY_HCA_VPORT_CONTEXT, hca_vport_context=change)
    assert context(driver).cap_mask1 == before


@pytest.mark.parametrize(
    "selected", [CapMask1.SYS_IMAGE_GUID_SUP, 1, 0xFFFFFFFF, CapMask1.CM_SUP | 1 << 31]
)
def test_capability_bit_of_the_device(refused, selected):
    change = {"cap_mask1": 0, "cap_mask1_field_select": selected}
    refused(Status.BAD_PARAM_ERR, Op.MODIFY_HCA_VPORT_CONTEXT, hca_vport_context=change)


@pytest.mark.parametrize("field_select", [1, 2, 4])
def test_guids_and_state_policy_are_not_settable(refused, field_select):
    change = {"field_select": field_select, "port_guid": 1, "node_guid": 2}
    refused(Status.BAD_PARAM_ERR, Op.MODIFY_HCA_VPORT_CONTEXT, hca_vport_context=change)


@pytest.mark.parametrize("op", QUERIES, ids=lambda op: op.name)
@pytest.mark.parametrize("vport", [{"other_vport": 1}, {"vport_number": 3}])
def test_there_is_one_vport(refused, op, vport):
    refused(Status.BAD_PARAM_ERR, op, **vport)


@pytest.mark.parametrize("index", range(GID_TABLE_ENTRIES))
def test_gid_by_index(driver, index):
    answer = driver.must(Op.QUERY_HCA_VPORT_GID, gid_index=index, out_extra=16)
    assert answer.gids_num == 1
    assert answer.gid[0] == (LINK_LOCAL_GID if index == 0 else NO_GUID)


def test_whole_gid_table(driver):
    answer = driver.must(Op.QUERY_HCA_VPORT_GID, gid_index=0xFFFF, out_extra=16 * GID_TABLE_ENTRIES)
    assert answer.gids_num == GID_TABLE_ENTRIES
    assert list(answer.gid) == [LINK_LOCAL_GID] + [NO_GUID] * (GID_TABLE_ENTRIES - 1)


@pytest.mark.parametrize("index", [0, 1, PKEY_TABLE_ENTRIES - 1])
def test_pkey_by_index(driver, index):
    answer = driver.must(Op.QUERY_HCA_VPORT_PKEY, pkey_index=index, out_extra=4)
    assert answer.pkey[0].pkey == (0xFFFF if index == 0 else 0)


@pytest.mark.parametrize("options", [HcaOptions(guid=GUID, pkeys=(0x8001, 2))])
def test_partitions_of_the_device_option(driver):
    answer = driver.must(
        Op.QUERY_HCA_VPORT_PKEY, pkey_index=0xFFFF, out_extra=4 * PKEY_TABLE_ENTRIES
    )
    assert [entry.pkey for entry in answer.pkey][:4] == [0xFFFF, 0x8001, 2, 0]


def test_whole_pkey_table(driver):
    answer = driver.must(
        Op.QUERY_HCA_VPORT_PKEY, pkey_index=0xFFFF, out_extra=4 * PKEY_TABLE_ENTRIES
    )
    assert [entry.pkey for entry in answer.pkey] == [0xFFFF] + [0] * (PKEY_TABLE_ENTRIES - 1)


def test_tables_are_as_long_as_the_capabilities_say(driver):
    """The codes 0 mean 8 GIDs and 128 P_Keys (port.h: mlx5_get_gid_table_len, ..pkey..)."""
    assert (driver.caps.gid_table_size, driver.caps.pkey_table_size) == (0, 0)
    assert (GID_TABLE_ENTRIES, PKEY_TABLE_ENTRIES) == (8, 128)


TABLES = {
    "gid": (Op.QUERY_HCA_VPORT_GID, "gid_index", 16, GID_TABLE_ENTRIES),
    "pkey": (Op.QUERY_HCA_VPORT_PKEY, "pkey_index", 4, PKEY_TABLE_ENTRIES),
}


@pytest.mark.parametrize("table", TABLES)
def test_index_beyond_the_table(refused, table):
    op, field, size, entries = TABLES[table]
    for index in (entries, 0xFFFE):
        refused(Status.BAD_PARAM_ERR, op, **{field: index}, out_extra=size)


@pytest.mark.parametrize("table", TABLES)
def test_output_without_room(refused, table):
    op, field, size, entries = TABLES[table]
    refused(Status.BAD_OUTP_LEN_ERR, op, **{field: 0}, out_extra=0)
    refused(Status.BAD_OUTP_LEN_ERR, op, **{field: 0xFFFF}, out_extra=size * (entries - 1))


def test_state_follows_the_link(driver, function):
    answer = driver.must(Op.QUERY_VPORT_STATE)
    assert (answer.admin_state, answer.state) == (1, 1)
    function.hca.port.set_link(up=False)
    assert driver.must(Op.QUERY_VPORT_STATE).state == 0


def test_counters_count_until_they_are_cleared(driver, function):
    function.hca.port.count_sent(3, 300)
    function.hca.port.count_received(2, 1 << 40)
    answer = driver.must(Op.QUERY_VPORT_COUNTER, clear=1)
    sent, received = answer.transmitted_ib_unicast, answer.received_ib_unicast
    assert (sent.packets, sent.octets) == (3, 300)
    assert (received.packets, received.octets) == (2, 1 << 40)
    assert not any(driver.must(Op.QUERY_VPORT_COUNTER).raw)
