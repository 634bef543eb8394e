"""Error completions under mlx5e: its health reporters reset the queue, and traffic goes on."""

from __future__ import annotations

import re

import pytest

from emu.device.faults.parser import load

pytestmark = pytest.mark.guest

DEVICES = ("connectx6,link=eth", "connectx6,link=eth")
PLAN = """
[[rule]]
point = "wqe"
action = "fail"
syndrome = "LOCAL_PROT_ERR"
match.opcode = ["SEND", "ENHANCED_MPSW"]
index = 30
[[rule]]
point = "wqe.rx"
action = "fail"
index = 60
"""
SECONDS = 240
UP = """
set -e
ip netns add peer
ip link set eth1 netns peer
ip address add 10.0.0.1/24 dev eth0
ip -n peer address add 10.0.0.2/24 dev eth1
ip link set eth0 up
ip -n peer link set eth1 up
until ip link show eth0 | grep -q LOWER_UP && ip -n peer link show eth1 | grep -q LOWER_UP; do
    sleep 0.1
done
"""
PING = "ping -q -c 5 -i 0.1 -W 1 10.0.0.2 > /dev/null"
RECOVERED = f"""
timeout 100 sh -c '
    until ethtool -S eth0 | grep -q "tx_recover: 1" && ethtool -S eth0 | grep -q "rx_recover: 1"
    do {PING}
    done'
"""


@pytest.fixture
def plan(tmp_path):
    load(PLAN)
    path = tmp_path / "plan.toml"
    path.write_text(PLAN)
    return path


@pytest.mark.slow
def test_errors_of_both_directions(boot, plan):
    """Without a double free: an SQ that is ready again must not look at its old requests."""
    guest = boot(devices=DEVICES, faults=plan)
    guest.run(UP, timeout=SECONDS).check()
    guest.run(RECOVERED, timeout=SECONDS).check()
    pinged = guest.run("ping -q -c 20 -i 0.1 -W 5 10.0.0.2", timeout=SECONDS).check().stdout
    assert re.search("20 packets transmitted, (19|20) received", pinged)
    assert "BUG" not in guest.run("dmesg", timeout=SECONDS).check().stdout


@pytest.mark.slow
def test_recovery_by_hand(boot, plan):
    """With ``auto_recover`` off a queue stays in its error until ``devlink health recover``, which
    makes all of the interface's anew (core/en/health.c: mlx5e_health_recover_channels)."""
    guest = boot(devices=DEVICES, faults=plan)
    port = guest.run("devlink port show | sed -n 's/: type eth netdev eth0 .*//p'").check()
    health = f"devlink health {{}} {port.stdout.strip()} reporter"
    for each in ("tx", "rx"):
        guest.run(f"{health.format('set')} {each} auto_recover false").check()
    guest.run(UP, timeout=SECONDS).check()
    for each in ("tx", "rx"):
        show = f"{health.format('show')} {each}"
        in_error = f"until {show} | grep -q 'state error'; do {PING} || :; done"
        guest.run(in_error, timeout=SECONDS).check()
        assert "state healthy" not in guest.run(show).check().stdout
        guest.run(f"{health.format('recover')} {each}", timeout=SECONDS).check()
        assert "state healthy" in guest.run(show).check().stdout
    guest.run("ping -q -c 5 -i 0.1 -W 20 10.0.0.2", timeout=SECONDS).check()
