"""The models: identities that the driver knows, capabilities that the layouts can hold."""

import math
import re
from collections.abc import Mapping
from dataclasses import replace

import pytest
from click.testing import CliRunner

from emu.cli.commands.functions.models import command
from emu.device.models import DEFAULT_MODEL, LINKS, MODELS
from emu.device.models.board_ports import with_port_selection
from emu.device.models.crypto import FIRST_HW_ID, KeyImport, with_crypto
from emu.device.models.software_steering import can_own_tables
from emu.device.models.sub_functions import sub_function_of, with_sub_functions
from emu.device.models.switching import can_switch, with_switch
from emu.device.pci import CLASS_ETHERNET, CLASS_INFINIBAND
from layouts.enums.caps import CapType, PortType
from layouts.function.caps import atomic_caps, cmd_hca_cap, cmd_hca_cap_2, odp_cap
from layouts.function.crypto import crypto_cap
from layouts.function.esw_caps import e_switch_cap, flow_table_eswitch_cap
from layouts.function.eth_caps import (
    debug_cap,
    flow_table_nic_cap,
    per_protocol_networking_offload_caps,
    qos_cap,
    roce_cap,
    shampo_cap,
)
from layouts.function.lag import port_selection_cap
from layouts.memory.memic import device_mem_cap
from layouts.wire.bth import PSN_HALF

IDS = {
    "connectx4lx": 0x1015,
    "connectx4lx-vf": 0x1016,
    "connectx5": 0x1017,
    "connectx5-vf": 0x1018,
    "connectx6": 0x101B,
    "connectx6-vf": 0x101C,
    "connectx6dx": 0x101D,
    "connectx6dx-vf": 0x101E,
    "connectx6lx": 0x101F,
    "connectx6lx-vf": 0x101E,
    "connectx7": 0x1021,
    "connectx7-vf": 0x101E,
    "bluefield2": 0xA2D6,
    "bluefield2-vf": 0x101E,
    "bluefield3": 0xA2DC,
    "bluefield3-vf": 0x101E,
}
LAYOUTS = {
    CapType.GENERAL: cmd_hca_cap,
    CapType.ATOMIC: atomic_caps,
    CapType.ODP: odp_cap,
    CapType.GENERAL_2: cmd_hca_cap_2,
    CapType.ETHERNET_OFFLOADS: per_protocol_networking_offload_caps,
    CapType.FLOW_TABLE: flow_table_nic_cap,
    CapType.ROCE: roce_cap,
    CapType.DEV_MEM: device_mem_cap,
    CapType.DEBUG: debug_cap,
    CapType.ESWITCH: e_switch_cap,
    CapType.ESWITCH_FLOW_TABLE: flow_table_eswitch_cap,
    CapType.DEV_SHAMPO: shampo_cap,
    CapType.QOS: qos_cap,
    CapType.CRYPTO: crypto_cap,
    CapType.PORT_SELECTION: port_selection_cap,
    CapType.IPOIB_ENHANCED_OFFLOADS: per_protocol_networking_offload_caps,
}
GATES = {
    CapType.ATOMIC: ("atomic",),
    CapType.ODP: ("pg",),
    CapType.GENERAL_2: ("hca_cap_2",),
    CapType.ETHERNET_OFFLOADS: ("eth_net_offloads",),
    CapType.FLOW_TABLE: ("nic_flow_table", "ipoib_enhanced_offloads"),
    CapType.ROCE: ("roce",),
    CapType.DEV_MEM: ("device_memory",),
    CapType.DEBUG: ("debug",),
    CapType.ESWITCH: ("eswitch_manager",),
    CapType.ESWITCH_FLOW_TABLE: ("eswitch_manager",),
    CapType.DEV_SHAMPO: ("shampo",),
    CapType.QOS: ("qos",),
    CapType.CRYPTO: ("crypto",),
    CapType.PORT_SELECTION: ("port_selection_cap",),
    CapType.IPOIB_ENHANCED_OFFLOADS: ("ipoib_enhanced_offloads",),
}
PLAIN = {
    f"{name}-{link.name}": model for name, links in LINKS.items() for link, model in links.items()
}
EVERY = PLAIN | {
    f"{name}-switch{'-sfs' * (most > 0)}": with_sub_functions(model, most)
    if most
    else with_switch(model)
    for name, model in PLAIN.items()
    if can_switch(model)
    for most in (0, 64)
}
EVERY |= {
    f"{name}-crypto-{way.name}": with_crypto(model, way)
    for name, model in PLAIN.items()
    if model.hw_id >= FIRST_HW_ID and not model.identity.is_vf
    for way in KeyImport
}
EVERY |= {
    f"{name}-port-select": with_port_selection(model)
    for name, model in PLAIN.items()
    if can_switch(model) and can_own_tables(model)
}


@pytest.fixture(params=EVERY)
def model(request):
    return EVERY[request.param]


def test_ids():
    assert {name: model.identity.device_id for name, model in MODELS.items()} == IDS
    assert all(model.name == name for name, model in MODELS.items())
    assert DEFAULT_MODEL in MODELS


def test_name_identity_and_title_agree_on_pf_and_vf(model):
    assert model.identity.is_vf == model.name.endswith("-vf")
    assert model.identity.is_vf == model.title.endswith(" VF")
    is_eth = model.port_type is PortType.ETH
    assert model.identity.class_code == (CLASS_ETHERNET if is_eth else CLASS_INFINIBAND)


def test_a_sub_function_can_do_what_a_virtual_function_can():
    """But for device memory: there is none in its part of BAR 2."""
    for link, model in LINKS["connectx7"].items():
        vf, sf = LINKS["connectx7-vf"][link], sub_function_of(model)
        assert sf.general == {**vf.general, "device_memory": 0}
        assert (sf.ethernet, sf.roce, sf.flow_table) == (vf.ethernet, vf.roce, vf.flow_table)
        assert not sf.device_memory


def test_longest_message_takes_fewer_than_half_of_all_psns(model):
    """With the smallest MTU; the requester relies on that."""
    assert 1 << model.general["log_max_msg"] < PSN_HALF * 256


def test_link_layers():
    assert {name: [link.name for link in links] for name, links in LINKS.items()} == {
        name: ["ETH"]
        if name.startswith(("connectx4lx", "connectx6dx", "connectx6lx"))
        else ["IB", "ETH"]
        for name in IDS
    }
    assert all(model.port_type is link for of in LINKS.values() for link, model in of.items())


@pytest.mark.parametrize("name", [name for name in EVERY if name.endswith("ETH")])
def test_what_mlx5e_insists_on(name):
    """core/dev.c: mlx5_eth_supported, core/fs_core.c: create_anchor_flow_table on Linux 7.2."""
    model = EVERY[name]
    receive = model.flow_table["flow_table_properties_nic_receive"]
    assert model.general["max_wqe_sz_sq"] >= 1024
    assert all(
        model.ethernet[field]
        for field in ("csum_cap", "max_lso_cap", "vlan_cap", "rss_ind_tbl_cap")
    )
    assert receive["ft_support"]
    assert receive["max_ft_level"] >= 59


def test_capabilities_fit_their_layouts(model):
    """A name that does not exist or a value that is too wide raises here."""
    for group, values in model.capabilities.items():
        view = LAYOUTS[group].new(**values)
        assert _named(view.as_dict(), values) == values


def _named(found, values):
    """Of what was found, the fields that ``values`` names."""
    return {
        name: _named(found[name], value) if isinstance(value, Mapping) else _fixed(found[name])
        for name, value in values.items()
    }


def _fixed(value):
    """A list that a layout gives is a tuple in the models, which cannot be changed."""
    return tuple(value) if isinstance(value, list) else value


def test_a_group_is_filled_exactly_when_its_gate_is_open(model):
    for group, gates in GATES.items():
        is_open = any(model.general.get(gate) for gate in gates)
        assert bool(model.capabilities[group]) == is_open


def test_what_the_drivers_insist_on(model):
    general = model.general
    assert general["xrc"], "mlx5_ib does not load without"
    assert general["log_bf_reg_size"] == 9, "doorbells are reply_error without"
    assert general["num_of_uars_per_page"] == 16, "of a guest with pages of 64 KiB"
    assert general["gid_table_size"] <= 4, "a code"
    assert general["log_max_qp"] <= 18
    assert 5 <= general["max_num_eqs"] <= 1 << general["log_max_eq"]
    assert general["log_max_eq_sz"] >= 13, "the asynchronous EQ has 8192 entries"
    assert general["max_qp_cnt"] < 256, "a counter set's number has 8 bits"


def test_a_vf_gets_no_more_than_its_pf():
    for vf in EVERY.values():
        if vf.identity.is_vf:
            pf = LINKS[vf.name.removesuffix("-vf")][vf.port_type]
            assert vf.general.keys() == pf.general.keys()
            sizes = [field for field in vf.general if field.startswith(("log_", "max_"))]
            assert all(vf.general[field] <= pf.general[field] for field in sizes)


def test_board_ids_are_ours(model):
    assert re.fullmatch(r"EMU[0-9A-F]{10}", model.psid)
    assert not model.identity.part_number.startswith("MCX")
    with pytest.raises(ValueError, match="board id"):
        replace(model, psid="EMU00000000000006")


def test_firmware_versions():
    majors = {name: model.fw_major for name, model in MODELS.items() if not model.identity.is_vf}
    assert majors == {
        "connectx4lx": 14,
        "connectx5": 16,
        "connectx6": 20,
        "connectx6dx": 22,
        "connectx6lx": 26,
        "connectx7": 28,
        "bluefield2": 24,
        "bluefield3": 32,
    }
    assert replace(MODELS["connectx6"], fw_minor=3, fw_subminor=12).firmware == "20.03.0012"


def test_links():
    links = {name: model.link for name, model in PLAIN.items() if not model.identity.is_vf}
    assert links == {
        "connectx4lx-ETH": "25 GbE",
        "connectx5-IB": "EDR 4X",
        "connectx5-ETH": "100 GbE",
        "connectx6-IB": "HDR 4X",
        "connectx6-ETH": "200 GbE",
        "connectx6dx-ETH": "100 GbE",
        "connectx6lx-ETH": "25 GbE",
        "connectx7-IB": "NDR 4X",
        "connectx7-ETH": "400 GbE",
        "bluefield2-IB": "EDR 4X",
        "bluefield2-ETH": "100 GbE",
        "bluefield3-IB": "NDR 4X",
        "bluefield3-ETH": "400 GbE",
    }


def test_models_cannot_be_changed(model):
    with pytest.raises(TypeError):
        model.general["xrc"] = 0
    with pytest.raises(AttributeError):
        model.psid = "MT_0000000000"


def test_the_command_shows_each_model_on_one_line():
    result = CliRunner(env={"COLUMNS": "100"}).invoke(command)
    assert result.exit_code == 0
    for name, model in MODELS.items():
        (line,) = [line for line in result.output.splitlines() if line.split()[:1] == [name]]
        kind = "VF" if model.identity.is_vf else "PF"
        ids = f"15b3:{model.identity.device_id:04x}"
        assert line.split() == [
            name,
            ids,
            kind,
            *model.title.split(),
            model.firmware,
            *" or ".join(each.link for each in LINKS[name].values()).split(),
        ]
    assert f"default: {DEFAULT_MODEL}" in result.output


@pytest.mark.parametrize("name", sorted(set(MODELS) - {"connectx4lx", "connectx4lx-vf"}))
def test_queues_of_the_kernels_targets_fit_with_protection(name):
    """nvmet-rdma's with 128 requests of 256 pages and T10-PI (core/rw.c: rdma_rw_init_qp).

    mlx5 gives each request room for 30 pieces and a memory key's parts (hw/qp.c: calc_send_wqe).
    """
    general = MODELS[name].general
    pages_at_once = 256 if general["max_sgl_for_optimized_performance"] else 30
    contexts = 128 * math.ceil(256 / pages_at_once)
    octets = (129 + 3 * contexts) * 704
    blocks = 1 << math.ceil(math.log2(octets / 64))
    assert blocks <= 1 << general["log_max_qp_sz"]
