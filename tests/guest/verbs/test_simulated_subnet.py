"""opensm in a guest manages a subnet of a file, in which the guest's two functions are."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from helpers.guest.guests import (
    IN_PEER,
    SECONDS,
    no_complaints_since_boot,
    run,
    running,
    two_namespaces,
)

from emu.guests import GuestOptions
from emu.server.control.client import Client
from emu.server.net.ib.subnet.topology import parse
from layouts.wire import sa
from layouts.wire.components import Components
from layouts.wire.mads import (
    BASE_VERSION,
    Method,
    MgmtClass,
    SmaTrap,
    SmpAttr,
    bad_mkey_notice,
    link_notice,
)

pytestmark = [pytest.mark.guest, pytest.mark.slow]

FILE = Path(__file__).parents[3] / "examples/subnet/two-leaves.net"
PROGRAM = Path(__file__).parents[1] / "inside" / "subscriber.py"
MKEY = 5
LOG = "/tmp/opensm.log"
ACTIVE = "until grep -q ACTIVE /sys/class/infiniband/mlx5_{}/ports/1/state; do sleep 0.2; done"


@pytest.fixture(scope="module")
def guest(suite):
    options = GuestOptions(
        suite=suite, devices=("connectx6", "connectx6"), packages=("opensm",), memory_mib=1024,
        subnet=FILE,
    )  # fmt: skip
    with running(options) as (found,):
        conf = f"m_key {MKEY}\\nm_key_protection_level 1\\n"
        run(found, f"printf '{conf}' > /tmp/opensm.conf")
        opensm = "opensm -F /tmp/opensm.conf -f /tmp/opensm.log"
        run(found, f"(exec {opensm} > /tmp/opensm.out 2>&1 </dev/null) &")
        for number in (0, 1):
            run(found, f"timeout {SECONDS} sh -c '{ACTIVE.format(number)}'")
        yield found
        no_complaints_since_boot(found)


def lids(guest):
    text = run(guest, "cat /sys/class/infiniband/mlx5_[01]/ports/1/lid")
    return [int(word, 16) for word in text.split()]


def test_the_topology_is_the_files(guest):
    found, given = parse(run(guest, "ibnetdiscover")), parse(FILE.read_text())
    assert len(found.nodes) == len(given.nodes) == 8
    assert len(found.cables) == len(given.cables) == 8
    names = {node.description for node in found.nodes}
    assert names > {"leaf0", "leaf1", "spine0", "spine1", "node2", "node3"}


def test_tools_see_a_subnet_without_errors(guest):
    assert "SMINFO_MASTER" in run(guest, "sminfo")
    # The functions' resets at boot have counted as links that went down, as a host's do.
    run(guest, "ibqueryerrors --clear-errors > /dev/null || true")
    assert "8 nodes checked, 0 bad nodes found" in run(guest, "ibqueryerrors")
    assert run(guest, "iblinkinfo --line").count("Active/  LinkUp") == 16
    assert run(guest, "saquery -N").count("NodeRecord dump") == 8
    hops = run(guest, "ibtracert {} {}".format(*lids(guest)))
    assert hops.count("-> switch port") == 3


def test_opensm_hears_of_a_new_description(guest):
    """By trap 144, without a sweep."""
    run(guest, "echo 'the new name' > /sys/class/infiniband/mlx5_1/node_desc")
    told = "until saquery -N | grep -q 'the new name'; do sleep 1; done"
    run(guest, f'timeout {SECONDS} sh -c "{told}"')
    run(guest, "sleep 2")
    log = run(guest, "cat /tmp/opensm.log")
    traps = re.findall(r"num:144 .* TID:(\w+)", log)
    assert traps
    assert len(set(traps)) == len(traps), "each is sent once, as opensm represses it"


def subscription():
    """Of all notices of all nodes."""
    about = {
        "lid_range_begin": 0xFFFF, "is_generic": 1, "subscribe": 1, "trap_type": 0xFFFF,
        "trap_num": 0xFFFF, "producer_type": 0xFFFFFF, "qpn": 1,
    }  # fmt: skip
    info = sa.inform_info.new(**about)
    mad = sa.sa_mad.new(
        mad_hdr={
            "base_version": BASE_VERSION, "mgmt_class": MgmtClass.SUBN_ADM,
            "class_version": sa.CLASS_VERSION, "method": Method.SET, "tid": 1,
            "attr_id": sa.SaAttr.INFORM_INFO,
        },
        comp_mask=Components(sa.inform_info).mask_of(*about),
        data=bytes(info).ljust(sa.DATA_BYTES, b"\0"),
    )  # fmt: skip
    return bytes(mad).hex()


def logged_traps(guest, wanted):
    """The log of opensm when it has got these traps, and had the time to get one again."""
    for trap in wanted:
        run(guest, f"timeout {SECONDS} sh -c 'until grep num:{int(trap)} {LOG}; do sleep 1; done'")
    run(guest, "sleep 2")
    return run(guest, f"cat {LOG}")


def reported(guest):
    """The notices that the subscriber has got, by number: their data."""
    found = {}
    for line in run(guest, "cat /tmp/reports").splitlines():
        if not line.startswith("subscribed"):
            notice = sa.sa_mad.view(bytes.fromhex(line)).data[:64]
            found[link_notice.view(notice).trap_num] = notice
    return found


def test_errors_and_wrong_keys_are_told(guest):
    """By nodes and functions to opensm, which represses the traps.

    It reports all but those of errors to subscribers (osm_trap_rcv.c: trap_rcv_process_request).
    """
    guest.run("cat > /tmp/subscriber.py", stdin=PROGRAM.read_bytes(), timeout=SECONDS).check()
    master = lids(guest)[0]
    words = f"python3 /tmp/subscriber.py mlx5_1 {master} {subscription()}"
    run(guest, f"({words} > /tmp/reports 2>&1 </dev/null) &")
    run(
        guest, f"timeout {SECONDS} sh -c 'until grep -q ^subscribed /tmp/reports; do sleep 1; done'"
    )
    leaf = int(re.search(r"lid (\d+) lmc", run(guest, "ibswitches | grep leaf1"))[1])
    with Client(guest.control_socket) as client:
        for node, port, kind in (
            ("leaf0", 7, "symbols"),
            ("function1", 1, "overrun"),
            ("spine0", 1, "watchdog"),
        ):
            place = {"function": 0, "node": node, "port": port}
            rule = {"point": "load", "action": "port_errors", "kind": kind, "count": 100} | place
            client.call("fault.add", rule=rule)
    guest.run(f"ibportstate {leaf} 3 disable", timeout=SECONDS)
    errors = {
        SmaTrap.LINK_INTEGRITY, SmaTrap.BUFFER_OVERRUN, SmaTrap.FLOW_CONTROL_WATCHDOG,
    }  # fmt: skip
    wanted = errors | {SmaTrap.BAD_MKEY}
    run(guest, f"timeout {SECONDS} sh -c 'until grep -q ^0103 /tmp/reports; do sleep 1; done'")
    notice = bad_mkey_notice.view(reported(guest)[SmaTrap.BAD_MKEY])
    assert (notice.method, notice.attr_id) == (Method.SET, SmpAttr.PORT_INFO)
    log = logged_traps(guest, wanted)
    for trap in wanted:
        traps = re.findall(rf"num:{int(trap)} .* TID:(\w+)", log)
        assert len(set(traps)) == len(traps) > 0, f"{trap!r} is sent once each time"
    assert (
        run(guest, "cat /sys/class/infiniband/mlx5_1/ports/1/counters/port_rcv_errors") == "100\n"
    )
    run(guest, "kill $(pgrep -f [s]ubscriber.py); ibqueryerrors --clear-errors > /dev/null || true")


def messages(guest):
    """Bytes over a connection between the two functions."""
    return run(
        guest, "ibv_rc_pingpong -n 50 -d mlx5_1 > /dev/null & sleep 2;"
        " ibv_rc_pingpong -n 50 -d mlx5_0 localhost"
    )  # fmt: skip


def test_packets_pass_three_switches_which_count_them(guest):
    lid = int(re.search(r"lid (\d+) lmc", run(guest, "ibswitches | grep leaf1"))[1])
    before = sent(guest, lid)
    assert "50 iters in" in messages(guest)
    assert sent(guest, lid) >= before + 50


def sent(guest, lid):
    return int(re.search(r"PortXmitPkts:\.*(\d+)", run(guest, f"perfquery {lid} 1"))[1])


def test_ipoib_and_rdma_cm_need_the_tables_of_multicast(guest):
    """The first packet is ARP's broadcast, by the switches' multicast tables."""
    run(
        guest,
        f"""set -e
        modprobe ib_ipoib
        {two_namespaces("ib0", "ib1", "10.0.0.1", "10.0.0.2")}
        timeout {SECONDS} sh -c 'until ping -c 1 -W 2 10.0.0.2; do sleep 1; done'""",
    )
    said = run(guest, "(rping -s -C 3 -a 10.0.0.1 &) ; sleep 2; "
               f"{IN_PEER} rping -c -v -C 3 -a 10.0.0.1")  # fmt: skip
    assert said.count("ping data: rdma-ping") == 3


def test_a_cable_is_cut_and_opensm_routes_anew(guest):
    one, other = lids(guest)
    spine = re.findall(r'"(spine\d)"', run(guest, f"ibtracert {one} {other}"))[0]
    port = 7 + int(spine[-1])
    with Client(guest.control_socket) as client:
        client.call("subnet.cut", node="leaf0", port=port, is_cut=True)
    anew = f"until ibtracert {one} {other} | grep -q spine{1 - int(spine[-1])}; do sleep 1; done"
    run(guest, f"timeout {SECONDS} sh -c '{anew}' 2> /dev/null")
    assert "50 iters in" in messages(guest)
    with Client(guest.control_socket) as client:
        client.call("subnet.cut", node="leaf0", port=port, is_cut=False)
    run(guest, "ibnetdiscover")


def test_a_plan_cuts_a_cable_for_a_while(guest):
    """opensm sweeps by trap 128, and again when the cable is back."""
    one, other = lids(guest)
    spine = re.findall(r'"(spine\d)"', run(guest, f"ibtracert {one} {other}"))[0]
    port = 7 + int(spine[-1])
    with Client(guest.control_socket) as client:
        place = {"function": 0, "node": "leaf0", "port": port}
        client.call("fault.add", rule={"point": "load", "action": "cable", "ms": 15000} | place)
    anew = f"until ibtracert {one} {other} | grep -q spine{1 - int(spine[-1])}; do sleep 1; done"
    run(guest, f"timeout {SECONDS} sh -c '{anew}' 2> /dev/null")
    assert "50 iters in" in messages(guest)
    back = "until iblinkinfo --line | grep -c Active/ | grep -qx 16; do sleep 1; done"
    run(guest, f"timeout {SECONDS} sh -c '{back}' 2> /dev/null")
