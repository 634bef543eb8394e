"""Faults in guests: the same plan twice, replay, minimize, full disks, and the pytest plugin."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest
from helpers.guest.fault_plans import traffic_flows
from helpers.guest.kernel_log import KernelLog

from emu.device.faults import record
from emu.device.faults.parser import load
from emu.host.process_identity import module_command
from emu.instruments.fuzz.traffic import with_traffic
from emu.server.control import Client

pytestmark = pytest.mark.guest

ROOT = Path(__file__).parents[3]
DOMAINS = """
from pyverbs.device import Context
from pyverbs.pd import PD
from pyverbs.pyverbs_error import PyverbsError
context = Context(name="mlx5_0")
for number in range(40):
    try:
        PD(context).close()
    except PyverbsError as error:
        print(number, error)
"""
ONE_DOMAIN = DOMAINS.replace("range(40)", "range(1)").replace("print(number, error)", "raise")
PLAN = """
seed = 11
[[rule]]
name = "now-and-then"
point = "cmd"
action = "fail"
match.op = "ALLOC_PD"
probability = 30
space = 5
status = "LIM_ERR"
[[rule]]
name = "every-seventh"
point = "cmd.done"
action = "delay"
ms = 2
match.op = "DEALLOC_PD"
interval = 7
"""
HARMLESS = (
    "QUERY_HCA_CAP", "QUERY_ISSI", "SET_ISSI", "QUERY_PAGES", "SET_HCA_CAP", "QUERY_ADAPTER",
    "ALLOC_UAR", "CREATE_EQ", "CREATE_MKEY",
)  # fmt: skip
WAIT = "timeout 240 sh -c 'until ibv_devinfo | grep -q ACTIVE; do sleep 0.1; done'; "


@pytest.fixture
def plan_of(tmp_path):
    """Writes a plan to a file."""

    def write(text):
        load(text)
        path = tmp_path / "plan.toml"
        path.write_text(text)
        return path

    return write


def python(guest, program):
    return guest.run(["python3", "-c", program], timeout=120)


def mlx5emu(*words, timeout=800):
    return subprocess.run(
        [*module_command("emu"), *map(str, words)],
        capture_output=True, text=True, timeout=timeout, check=False, cwd=ROOT,
    )  # fmt: skip


def test_same_plan_and_seed_make_the_same_record(boot, plan_of, tmp_path):
    path, records, said = plan_of(PLAN), [], []
    for number in range(2):
        kept = tmp_path / f"record{number}"
        guest = boot(devices=("connectx6-vf",), faults=path, record=kept)
        said.append(python(guest, DOMAINS).check().stdout)
        guest.stop()
        records.append(kept.read_text())
    first, second = (re.sub(r',"seconds":[0-9.e-]+', "", one) for one in records)
    assert first == second != records[1]
    assert said[0] == said[1] != ""
    fired = record.read(records[0]).fired
    times = [one.seconds or 0 for one in fired]
    assert times == sorted(times)
    assert times[0] > 0
    assert {one.rule for one in fired} == {"now-and-then", "every-seventh"}


@pytest.mark.slow
def test_a_rule_that_was_added_live_is_replayed(boot, suite, tmp_path):
    """Forty domains, the rule, forty more: a replay arms it after as many commands."""
    kept = tmp_path / "record"
    guest = boot(devices=("connectx6-vf",), record=kept)
    guest.run(["sh", "-c", WAIT], timeout=300).check()
    assert python(guest, DOMAINS).check().stdout == ""
    with Client(guest.control_socket) as control:
        control.add(point="cmd", action="fail", match={"op": "ALLOC_PD"}, times=1, status="LIM_ERR")
    assert python(guest, DOMAINS).check().stdout.startswith("0 ")
    guest.stop()
    twice = f"python3 -c '{DOMAINS}'; python3 -c '{DOMAINS}'"
    again = mlx5emu("replay", kept, "--", "sh", "-c", WAIT + twice)
    assert again.returncode == 0, again.stderr
    assert re.search(r"(the fault|all \d+ faults) fired again", again.stderr)
    assert again.stdout.count("Errno: 12") == 1


@pytest.mark.faults
@pytest.mark.timeout(1800)
def test_replay_and_minimize(plan_of, suite, tmp_path):
    """Ten rules, nine of which change nothing that the command would notice."""
    rules = [
        f'[[rule]]\nname="slow-{op.lower()}"\npoint="cmd"\naction="delay"\nms=1\ntimes=2\n'
        f'match.op="{op}"\n'
        for op in HARMLESS
    ]
    rules.insert(
        4, '[[rule]]\nname="culprit"\npoint="cmd"\naction="fail"\nmatch.op="ALLOC_PD"\nspace=3\n'
        'status="NO_RES_ERR"\n'
    )  # fmt: skip
    kept, smallest = tmp_path / "record", tmp_path / "smallest.toml"
    script = ("sh", "-c", WAIT + f"exec python3 -c '{ONE_DOMAIN}'")
    options = ("--suite", suite, "--device", "connectx6-vf")
    run = mlx5emu("run", *options, "--faults", plan_of("".join(rules)), "--record", kept,
                  "--", *script)  # fmt: skip
    assert run.returncode == 1, run.stderr
    assert "Errno: 11" in run.stderr
    again = mlx5emu("replay", kept, "--", *script)
    assert again.returncode == 1, again.stderr
    assert re.search(r"all \d+ faults fired again", again.stderr)
    found = mlx5emu("minimize", "-o", smallest, kept, "--", *script, timeout=1600)
    assert found.returncode == 0, found.stderr
    (rule,) = load(smallest.read_text()).rule
    assert rule.name == "culprit"
    assert len(rule.index) == 1


@pytest.mark.suite("bookworm", "trixie")
def test_error_of_the_port_above(boot):
    """The only PCI error whose message reaches the guest: the driver starts anew.

    Linux 7.2 resets the link for it, which QEMU's port never reports active again ("Data Link Layer
    Link Active not set").
    """
    guest = boot(devices=("connectx6-vf",))
    with_traffic(guest)
    log = KernelLog(guest)
    inject = {"command-line": "pcie_aer_inject_error port0 COMP_TIME"}
    guest.control("human-monitor-command", **inject)
    log.wait_for("device recovered", 60)
    said = "\n".join(text for _, text in log.lines())
    steps = "mlx5_pci_err_detected", "mlx5_pci_slot_reset", "mlx5_pci_resume"
    assert [step for step in steps if step not in said] == []
    assert traffic_flows(guest, 60)


def test_full_disk_under_record_and_trace(boot, suite):
    """Both end with a line in the log, and the guest's traffic goes on."""
    guest = boot(devices=("connectx6-vf",), record=Path("/dev/full"), trace=Path("/dev/full"))
    with_traffic(guest)
    with Client(guest.control_socket) as control:
        control.add(point="cmd", action="delay", ms=1, times=1, match={"op": "ALLOC_PD"})
        assert traffic_flows(guest, 30)
        assert [rule["counts"][0]["fired"] for rule in control.rules()] == [1]
    log = (guest.logs / "server.log").read_text()
    assert log.count("the trace ends here, the device continues") == 1
    assert log.count("ends here, the run continues") == 1


def test_a_mistake_in_a_plan_is_one_line_before_anything_boots(tmp_path):
    path = tmp_path / "plan.toml"
    path.write_text('[[rule]]\npoint="cmd"\naction="explode"\n')
    run = mlx5emu("run", "--faults", path, "--", "true")
    assert run.returncode == 2
    assert f"{path}:3: rule[1].action:" in run.stderr
    assert "Traceback" not in run.stderr


@pytest.mark.faults
def test_example_project(suite, tmp_path):
    """A driver developer's tests; then one that fails, whose report has all that is known."""
    plugin = next(iter(entry_points(group="pytest11", name="mlx5emu")), None)
    load_it = () if plugin is not None else ("-p", "emu.pytest_plugin")
    environ = os.environ | {"PYTHONPATH": str(ROOT)}

    def pytest_in(directory, *words):
        return subprocess.run(
            [sys.executable, "-m", "pytest", *load_it, "-p", "no:cacheprovider", "--mlx5-suite",
             suite, *words], cwd=directory, env=environ, capture_output=True, text=True,
            timeout=800, check=False,
        )  # fmt: skip

    done = pytest_in(ROOT / "examples" / "driver-tests", "-q")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "3 passed" in done.stdout
    (tmp_path / "test_it.py").write_text(
        "def test_it(mlx5_guest, mlx5_faults):\n"
        "    mlx5_faults.add(point='cmd', action='fail', match={'op': 'ALLOC_PD'}, name='mine')\n"
        "    mlx5_guest.run('echo hello > /dev/kmsg')\n"
        "    mlx5_guest.run('ibv_rc_pingpong').check()\n"
    )
    done = pytest_in(tmp_path)
    assert done.returncode == 1, done.stdout + done.stderr
    for part in ("mlx5 dmesg", "hello", "mlx5 faults", "mine", "mlx5 trace", "ALLOC_PD"):
        assert part in done.stdout
