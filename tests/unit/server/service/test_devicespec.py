"""Device specifications of the command line."""

import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emu.device.models import DEFAULT_MODEL, LINKS, MODELS
from emu.device.models.switching import can_switch
from emu.device.port.ib.port import BASE_GUID
from emu.server.service.devicespec import MAX_LID, SETTINGS, DeviceSpecError, parse, parse_all
from layouts.enums.caps import PortType
from layouts.enums.general_object import GeneralObject


@pytest.mark.parametrize("name", MODELS)
def test_every_model_by_its_name(name):
    plain = ",switch=0" if can_switch(MODELS[name]) else ""
    assert parse(name + plain).model is MODELS[name]


@pytest.mark.parametrize("text", ["", ",lid=9"])
def test_default_model(text):
    assert parse(text).model is MODELS[DEFAULT_MODEL]


def test_defaults_differ_by_index():
    first, second = parse("", 0).options, parse("", 1).options
    assert (first.guid, first.lid, first.boot_pages) == (BASE_GUID, 1, 0)
    assert (second.guid, second.lid) == (BASE_GUID + 16, 2)


def test_settings_in_any_base_and_order():
    options = parse("connectx7-vf,pages=16,guid=0x1234,lid=0b11", 5).options
    assert (options.guid, options.lid, options.boot_pages) == (0x1234, 3, 16)


def test_port_data_by_mad():
    """Of the model, only the one capability differs."""
    plain, old = parse("connectx6").model, parse("connectx6,ib_virt=0").model
    assert parse("connectx6,ib_virt=1").model is plain
    assert {**old.general, "ib_virt": 1} == plain.general
    assert old.general["ib_virt"] == 0
    assert (old.name, old.identity) == (plain.name, plain.identity)


def test_type_of_windows():
    assert parse("connectx6,mw_2a=1").options.windows_2a
    assert not parse("connectx6").options.windows_2a


def test_a_switch():
    """Every physical function with an Ethernet port has one, from ConnectX-5 on, unless refused."""
    plain, switching = (parse(f"connectx6dx,switch={on}").model for on in (0, 1))
    assert plain is LINKS["connectx6dx"][PortType.ETH]
    assert parse("connectx6dx").model == switching
    assert "eswitch_manager" not in parse("connectx6,switch=0,link=eth").model.general
    for name in ("connectx4lx", "connectx6", "connectx6dx-vf"):
        assert "eswitch_manager" not in parse(name).model.general
    assert (switching.general["eswitch_manager"], switching.identity) == (1, plain.identity)
    assert parse("connectx5,link=eth,switch=1").model.eswitch["esw_uplink_ingress_acl"] == 1


@pytest.mark.parametrize("name", ["connectx6dx", "connectx7,link=eth", "bluefield2-vf,link=eth"])
def test_flow_tables_of_software(name):
    """As on real adapters, unless they are taken away; the FDB's as well."""
    plain, without = (parse(f"{name}{option}").model for option in ("", ",smfs=0"))
    receive = "flow_table_properties_nic_receive"
    assert parse(f"{name},smfs=1").model == plain
    assert plain.general["general_obj_types"] >> GeneralObject.SW_ICM & 1
    assert plain.flow_table[receive]["sw_owner_v2"] == 1
    assert not without.general["general_obj_types"] >> GeneralObject.SW_ICM & 1
    assert "sw_owner_v2" not in without.flow_table[receive]
    if not plain.identity.is_vf:
        for option, owned in (("", 1), (",smfs=0", 0)):
            fdb = parse(f"{name},switch=1{option}").model.eswitch_flow_table
            assert fdb["flow_table_properties_nic_esw_fdb"].get("sw_owner_v2", 0) == owned


@pytest.mark.parametrize("name", ["connectx4lx", "connectx5,link=eth", "connectx6,link=eth"])
def test_whose_entries_are_not_known_here(name):
    assert "sw_owner_v2" not in parse(name).model.flow_table["flow_table_properties_nic_receive"]
    assert parse(f"{name},smfs=0").model == parse(name).model
    with pytest.raises(DeviceSpecError, match="smfs"):
        parse(f"{name},smfs=1")


@pytest.mark.parametrize("name", ["connectx6dx-vf", "connectx4lx", "connectx6", "connectx7-vf"])
def test_what_has_no_switch(name):
    with pytest.raises(DeviceSpecError, match="switch"):
        parse(f"{name},switch=1")
    with pytest.raises(DeviceSpecError, match="sfs"):
        parse(f"{name},sfs=1")


@pytest.mark.parametrize("most", [1, 64, 256])
def test_sub_functions_need_a_switch_and_have_it(most):
    general = parse(f"connectx6dx,sfs={most}").model.general
    assert (general["eswitch_manager"], general["sf"], general["max_num_sf"]) == (1, 1, most)
    assert most <= 1 << general["log_max_sf"] < 2 * most
    assert "sf" not in parse("connectx6dx,switch=1").model.general


def test_more_sub_functions_than_there_can_be():
    with pytest.raises(DeviceSpecError, match="sfs"):
        parse("connectx6dx,sfs=257")


def test_virtual_functions_have_pages_and_partitions_of_their_physical_one():
    (spec,) = parse_all(["connectx6,vfs=1,pages=3,pkeys=0x8005"])
    (vf,) = spec.vfs
    assert (vf.options.boot_pages, vf.options.pkeys) == (3, (0x8005,))


def test_virtual_functions_have_addresses_of_their_own():
    first, second, third = parse_all(["connectx6,vfs=2,lid=4", "connectx6dx,vfs=31", "connectx6"])
    assert [vf.model.name for vf in first.vfs] == ["connectx6-vf"] * 2
    assert [vf.options.lid for vf in first.vfs] == [1, 2], "lid 3 is the third device's"
    assert {vf.model.port_type for vf in second.vfs} == {PortType.ETH}
    assert second.model.general["eswitch_manager"]
    assert not third.vfs
    every = [one for spec in (first, second, third) for one in (spec, *spec.vfs)]
    assert len({one.options.guid for one in every}) == len(every) == 36


@pytest.mark.parametrize(
    ("texts", "complaint"),
    [
        (["connectx6dx-vf,vfs=1"], "vfs: connectx6dx-vf is a virtual function itself"),
        (["connectx4lx,vfs=1"], "vfs: connectx4lx has no embedded switch"),
        (["connectx6,vfs=32"], "vfs=32 is not between 0 and 31"),
        (["connectx6,vfs=1,guid=0x10", "connectx6,guid=0x810"], "functions 0 and 1 both have guid"),
    ],
)
def test_virtual_functions_that_cannot_be(texts, complaint):
    with pytest.raises(DeviceSpecError, match=complaint):
        parse_all(texts)


def test_partitions():
    assert parse("connectx6,pkeys=0x8001:2").options.pkeys == (0x8001, 2)
    assert parse("connectx6").options.pkeys == ()


@pytest.mark.parametrize(
    "text", ["", "x", "0", "0x8000", "0xffff", "0x7fff", "0x10001", "-1", "1:0x8001", "1::2"]
)
def test_what_is_no_partition(text):
    with pytest.raises(DeviceSpecError, match="pkeys"):
        parse(f",pkeys={text}")


def test_most_partitions():
    parse(",pkeys=" + ":".join(map(str, range(1, 128))))
    with pytest.raises(DeviceSpecError, match="more than 127"):
        parse(",pkeys=" + ":".join(map(str, range(1, 129))))


def test_blueflame():
    assert [parse(f"connectx7-vf,bf={on}").model.general.get("bf", 0) for on in (0, 1)] == [0, 1]


def test_on_demand_paging():
    gates = [parse(f"connectx6,odp={scheme}").model.general["pg"] for scheme in range(3)]
    assert gates == [0, 1, 1]
    assert parse("connectx6,odp=1").model == parse("connectx6").model
    assert "mem_page_fault" not in parse("connectx6").model.odp
    assert parse("connectx6,odp=2").model.odp == parse("connectx7").model.odp
    assert parse("connectx6,odp=2").model.odp["mem_page_fault"] == 1


@pytest.mark.parametrize("scheme", [1, 2])
def test_operations_that_may_page_on_demand(scheme):
    """By default those that real adapters report, among them atomics of ConnectX-6 on InfiniBand;
    all with odp_all=1."""
    schemes = "transport_page_fault_scheme_cap", "memory_page_fault_scheme_cap"
    for everything in (0, 1):
        model = parse(f"connectx6,odp={scheme},odp_all={everything}").model
        assert model.general["pg"] == 1
        assert [name for name in schemes if name in model.odp] == list(schemes[:scheme])
        for caps in map(model.odp.get, schemes[:scheme]):
            for service in ("rc", "xrc", "dc"):
                assert caps[f"{service}_odp_caps"]["atomic"] == 1
                assert caps[f"{service}_odp_caps"]["srq_receive"] == 1
            assert caps["ud_odp_caps"] == {"send": 1, "srq_receive": everything}
    for other in ("connectx5", "connectx6,link=eth", "connectx7,link=eth"):
        odp = parse(f"{other},odp={scheme}").model.odp
        assert odp[schemes[scheme - 1]]["rc_odp_caps"]["atomic"] == 0
    assert parse("connectx6,odp=0,odp_all=1").model.general["pg"] == 0
    assert parse("connectx7,odp_all=1").model.odp["mem_page_fault"] == 1


def test_link_of_a_vpi_adapter():
    assert parse("connectx7").model.port_type is PortType.IB
    assert parse("connectx7,link=ib").model is MODELS["connectx7"]
    ethernet = parse("connectx7,mac=02:00:00:00:00:0a,link=eth,switch=0")
    assert ethernet.model is LINKS["connectx7"][PortType.ETH]
    assert ethernet.options.mac == 0x0200_0000_000A


@pytest.mark.parametrize("text", ["lid=1", f"lid={MAX_LID}", "pages=0", "pages=512", "guid=1"])
def test_limits_are_inside(text):
    parse(f",{text}")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("connectx4", "unknown model 'connectx4'; near it: connectx4lx, "),
        *((f",{key}", f"{key} needs a value: {key}={one.form}") for key, one in SETTINGS.items()),
        (",", "'' is no setting; known settings: guid=N, lid=N, pages=N"),
        (",speed=9", "'speed=9' is no setting; known settings:"),
        (",link=IB", "link='IB' is neither ib nor eth"),
        ("connectx6dx,link=ib", "link=ib: connectx6dx has no such port"),
        ("connectx6dx,lid=1", "lid needs link=ib"),
        (",mac=02:00:00:00:00:01", "mac needs link=eth"),
        (",link=eth,mac=2:0:0:0:0:1", "mac='2:0:0:0:0:1' is not a MAC address"),
        (",link=eth,mac=01:00:00:00:00:01", "is not a unicast address"),
        (",link=eth,mac=00:00:00:00:00:00", "is not a unicast address"),
        (",LID=9", "'LID=9' is no setting; near it: lid"),
        (",lid=", "lid='' is not a number"),
        (",lid=ten", "lid='ten' is not a number"),
        (",lid=1=2", "lid='1=2' is not a number"),
        (",lid=0", f"lid=0 is not between 1 and {MAX_LID}"),
        (",vfs=99", "vfs=99 is not between 0 and 31"),
        (",vfs=0x63", "vfs=0x63 is not between 0x0 and 0x1f"),
        (f",lid={MAX_LID + 1}", f"lid={MAX_LID + 1} is not between"),
        (",lid=-1", "lid=-1 is not between"),
        (",guid=0", "guid=0 is not between"),
        (f",guid={1 << 64}", "is not between"),
        (",pages=513", "pages=513 is not between 0 and 512"),
        (",ib_virt=2", "ib_virt=2 is not between 0 and 1"),
        (",odp=3", "odp=3 is not between 0 and 2"),
        (",odp_all=2", "odp_all=2 is not between 0 and 1"),
    ],
)
def test_complaint_names_the_wrong_part(text, complaint):
    with pytest.raises(DeviceSpecError) as caught:
        parse(text)
    assert complaint in str(caught.value)


@pytest.mark.parametrize(
    ("texts", "complaint"),
    [
        (["connectx6,lid=2", "connectx6"], "functions 0 and 1 both have lid=2: .* lid=N"),
        (["", "connectx5,guid=7", "connectx6dx,guid=7"], "functions 1 and 2 both have guid=0x7"),
    ],
)
def test_two_functions_have_two_addresses(texts, complaint):
    with pytest.raises(DeviceSpecError, match=complaint):
        parse_all(texts)


def test_two_functions_are_the_ports_of_a_board():
    texts = ["connectx6dx,board=7", "connectx6dx", "connectx6dx,board=7,segment=2"]
    specs = parse_all(texts)
    assert [spec.board for spec in specs] == [7, 0, 7]
    assert [spec.model.general.get("native_port_num", 0) for spec in specs] == [1, 0, 2]


@pytest.mark.parametrize(
    ("texts", "complaint"),
    [
        (["connectx6dx,board=1"], "board=1 needs 2 functions, not 1"),
        (["connectx6dx,board=1"] * 3, "board=1 needs 2 functions, not 3"),
        (["connectx6dx,board=1", "connectx7,link=eth,board=1"], "of different models"),
        (["connectx6-vf,link=eth,board=1"] * 2, "board=1: only physical functions"),
        (["connectx6,board=1"] * 2, "board needs link=eth"),
        (["connectx6dx,port_select=1"], "port_select needs board=N"),
        (["connectx5,link=eth,board=1,port_select=1"] * 2, "has no port selection flow tables"),
        (["connectx6dx,board=256"] * 2, "board=256 is not between 0 and 255"),
    ],
)
def test_a_board_has_two_ports(texts, complaint):
    with pytest.raises(DeviceSpecError, match=complaint):
        parse_all(texts)


def test_what_a_fabric_chooses_cannot_be_equal():
    assert len(parse_all(["connectx6,lid=2", "connectx6"], fabric=True)) == 2
    with pytest.raises(DeviceSpecError, match="lid=2"):
        parse_all(["connectx6,lid=2", "connectx6,lid=2"], fabric=True)


def test_an_ethernet_function_has_no_lid():
    assert len(parse_all(["connectx6,lid=2", "connectx6dx"])) == 2


@given(st.text())
@settings(deadline=None)
def test_any_text_is_read_or_refused(text):
    """With a message, and never with another exception."""
    with contextlib.suppress(DeviceSpecError):
        parse(text)


class TestCrypto:
    """``crypto=`` needs a package that need not be there."""

    @pytest.fixture(autouse=True)
    def has_aes(self, monkeypatch):
        monkeypatch.setattr("emu.server.service.devicespec.model.HAS_AES", True)

    @pytest.mark.parametrize(("way", "is_wrapped"), [("plaintext", False), ("wrapped", True)])
    def test_how_keys_come(self, way, is_wrapped):
        model = parse(f"connectx6,crypto={way}").model
        assert model.general["crypto"]
        assert bool(model.crypto.get("wrapped_import_method")) is is_wrapped
        assert not MODELS["connectx6"].general.get("crypto")

    @pytest.mark.parametrize(
        ("text", "why"),
        [
            ("connectx6,crypto=1", "neither plaintext nor wrapped"),
            ("connectx5,crypto=wrapped", "has no encryption"),
        ],
    )
    def test_what_is_not_there(self, text, why):
        with pytest.raises(DeviceSpecError, match=why):
            parse(text)

    def test_without_the_package(self, monkeypatch):
        monkeypatch.setattr("emu.server.service.devicespec.model.HAS_AES", False)
        with pytest.raises(DeviceSpecError, match=r"pip install mlx5emu\[crypto\]"):
            parse("connectx6,crypto=wrapped")
