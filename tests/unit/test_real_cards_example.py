"""examples/real-cards: its page is up to date, and each difference has one reason."""

from __future__ import annotations

import importlib.util
import sys
import tomllib
from fnmatch import fnmatch
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parents[2] / "examples" / "real-cards" / "compare.py"


def loaded():
    spec = importlib.util.spec_from_file_location("real_cards_example", PROGRAM)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


EXAMPLE = loaded()
HERE = tomllib.loads(EXAMPLE.HERE.read_text())
REASONS = tomllib.loads(EXAMPLE.REASONS.read_text())["difference"]
UNLIKE = [
    (card, name)
    for card in EXAMPLE.cards()
    for name, *_ in EXAMPLE.differences(card, HERE[card["device"]][card["tool"]])
]


@pytest.mark.parametrize("word", ["--help", "--tabel"])
def test_other_words_boot_no_guest(word, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["compare.py", word])
    monkeypatch.setattr(EXAMPLE, "measure", lambda: pytest.fail("it boots a guest"))
    with pytest.raises(SystemExit):
        EXAMPLE.main()
    assert "--table" in "".join(capsys.readouterr())


def test_the_page_is_up_to_date():
    assert EXAMPLE.PAGE.read_text() == EXAMPLE.page(HERE)


def test_each_difference_has_a_reason():
    assert not [one for one in UNLIKE if not EXAMPLE.reason_of(REASONS, *one)]


def test_each_reason_is_of_a_difference():
    for reason in REASONS:
        for pattern in reason["names"]:
            fits = [one for one in UNLIKE if fnmatch(one[1], pattern)]
            assert any(EXAMPLE.reason_of(REASONS, *one) == reason["reason"] for one in fits), (
                pattern
            )


@pytest.mark.parametrize("card", EXAMPLE.cards(), ids=lambda one: f"{one['device']}-{one['tool']}")
def test_facts_are_what_a_tool_can_say(card):
    assert card["tool"] in EXAMPLE.TOOLS
    assert card["source"].startswith("public dump, ")
    assert all(isinstance(value, str) and value for value in card["facts"].values())


def test_the_text_of_ibv_devinfo():
    said = (
        "hca_id:\tmlx5_0\n\tmax_qp:\t\t\t17\n\tdevice_cap_flags:\t\t0x25\n\t\t\t\t\tXRC\n"
        "\t\t\t\t\tMEM_WINDOW\n\t\t\t\t\tUnknown flags: 0x80\n\thca_core_clock:\t\t\t156250kHZ\n"
        "\traw packet caps:\n\t\t\t\t\tIP csum offload\n\t\t\t\t\tDelay drop\n"
        "\tdevice_cap_flags_ex:\t\t0x25\n\ttso_caps:\n\t\tmax_tso:\t\t\t9\n"
        "\t\tport:\t1\n\t\t\tstate:\t\t\tPORT_ACTIVE (4)\n\t\t\tGID[  0]:\t\tfe80::1, RoCE v2\n"
    )
    found = EXAMPLE.of_devinfo(said)
    assert found["max_qp"] == "17"
    assert found["device_cap_flags"] == "MEM_WINDOW XRC"
    assert found["device_cap_flags_ex"] == ""
    assert found["hca_core_clock"] == "156250"
    assert found["raw packet caps"] == "Delay drop, IP csum offload"
    assert found["tso_caps.max_tso"] == "9"
    assert (found["port.state"], found["port.GID[  0]"]) == ("PORT_ACTIVE (4)", "RoCE v2")


def test_the_text_of_lspci():
    said = (
        "01:00.0 Ethernet controller: Mellanox Technologies MT2892 Family [ConnectX-6 Dx]\n"
        "\tCapabilities: [60] Express (v2) Endpoint, IntMsgNum 0\n"
        "\t\tLnkCap:\tPort #0, Speed 16GT/s, Width x16, ASPM not supported\n"
        "\tCapabilities: [48] Vital Product Data\n\t\t\t[PN] Part number: A\n"
        "\tCapabilities: [9c] MSI-X: Enable+ Count=64 Masked-\n"
        "\t\tVector table: BAR=0 offset=00002000\n\t\tPBA: BAR=0 offset=00003000\n"
    )
    assert EXAMPLE.of_lspci(said) == {
        "class": "Ethernet controller",
        "device": "MT2892 Family [ConnectX-6 Dx]",
        "capabilities": "60 48 9c",
        "LnkCap": "16GT/s x16",
        "LnkCap ASPM": "not supported",
        "MSI-X": "Count=64, table 00002000, PBA 00003000",
        "VPD": "PN",
    }


def test_the_text_of_devlink():
    said = (
        "pci/0000:08:00.0:\n  driver mlx5_core\n  versions:\n      fixed:\n        fw.psid MT_1\n"
        "      running:\n        fw.version 28.41.1000\n        fw 28.41.1000\n"
    )
    assert EXAMPLE.of_devlink(said) == {
        "names": "fixed.fw.psid running.fw running.fw.version", "driver": "mlx5_core",
    }  # fmt: skip


def test_the_text_of_ip_link():
    said = (
        "5: eth0: <BROADCAST,MULTICAST,UP> mtu 1500\n    link/ether 02:00:00:00:00:01\n"
        "    vf 0     link/ether 00:00:00:00:00:00 brd ff:ff:ff:ff:ff:ff, vlan 10, "
        "spoof checking off, link-state auto, trust off, query_rss off\n"
        "    vf 1     link/ether 00:00:00:00:00:00 brd ff:ff:ff:ff:ff:ff, trust on\n"
    )
    assert EXAMPLE.of_ip_link(said) == {
        "vlan": "10", "spoof checking": "off", "link-state": "auto", "trust": "off",
        "query_rss": "off",
    }  # fmt: skip


def test_the_text_of_a_devlink_port():
    said = (
        "pci/0000:07:00.0/1: type eth netdev eth3 flavour pcivf controller 0 pfnum 0 vfnum 0"
        " external false\n  function:\n    hw_addr 02:00:00:00:00:01 roce enable\n"
    )
    assert EXAMPLE.of_devlink_port(said) == {
        "type": "eth", "flavour": "pcivf", "controller": "0", "pfnum": "0", "vfnum": "0",
        "external": "false", "function": "hw_addr roce",
    }  # fmt: skip
