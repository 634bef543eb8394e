"""What `run`, a test's guest and the plugin make of findings, panics and leaks in real guests."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from xml.etree import ElementTree

import pytest
from helpers.files.readme_commands import EXAMPLES, ROOT

from emu.host.process_identity import module_command

pytestmark = pytest.mark.guest

PULSE = EXAMPLES / "findings" / "pps-event-without-pins.toml"
WARNS = "echo 'WARNING: CPU: 0 PID: 1 at a.c:1 mlx5_w+0x1/0x2 [mlx5_core]' > /dev/kmsg"
KEEPER = """
import os, sys, time
from pyverbs.device import Context
from pyverbs.mr import MR
from pyverbs.pd import PD
read, write = os.pipe()
if os.fork():
    os.read(read, 1)
    sys.exit()
os.setsid()
for number in range(3):
    os.close(number)
domain = PD(Context(name="mlx5_0"))
region = MR(domain, 4096, 1)
os.write(write, b"x")
time.sleep(1000)
"""
"""Leaves a process that keeps a domain and a region."""


def mlx5emu(*words):
    return subprocess.run(
        [*module_command("emu"), *map(str, words)],
        capture_output=True, text=True, timeout=800, check=False, cwd=ROOT,
    )  # fmt: skip


def test_a_panic_leaves_a_result(lab, suite, tmp_path):
    """The plan begins when the driver is up, and its event finds a queue."""
    results = tmp_path / "new" / "run.xml", tmp_path / "other" / "run.tap"
    for path in results:
        path.parent.mkdir()
    done = mlx5emu(
        "run", "--suite", suite, "--faults", PULSE, "--junit", results[0], "--tap", results[1],
        "--record", tmp_path / "record", "--", "sh", "-c", "echo hello; sleep 60",
    )  # fmt: skip
    assert done.returncode == 125, done.stderr
    assert "faults that have fired: rule-1 1 time" in done.stderr
    (error,) = ElementTree.parse(results[0]).iter("error")
    assert "the guest panicked" in error.get("message")
    assert "mlx5_pps_event" in error.text
    (log,) = ElementTree.parse(results[0]).iter("system-err")
    assert "Kernel panic" in log.text
    assert "not ok 1 mlx5emu run" in results[1].read_text()
    lines = map(json.loads, (tmp_path / "record").read_text().splitlines())
    (fired,) = (line for line in lines if "rule" in line)
    assert (fired["rule"], "without_effect" in fired) == ("rule-1", False)


def test_a_warning_fails_where_it_is_wanted(lab, suite, tmp_path):
    """What the kernel would write, written for it."""
    words = "--suite", suite, "--junit", tmp_path / "run.xml", "--", "sh", "-c", WARNS
    done = mlx5emu("run", *words)
    assert done.returncode == 0, done.stderr
    assert "WARNING in mlx5_w" in done.stderr
    assert not list(ElementTree.parse(tmp_path / "run.xml").iter("failure"))
    done = mlx5emu("run", "--fail-on", "warning", *words)
    assert done.returncode == 122, done.stderr
    (failure,) = ElementTree.parse(tmp_path / "run.xml").iter("failure")
    assert failure.get("message") == "WARNING in mlx5_w"


def test_a_program_that_leaves_objects_leaks_and_others_do_not(lab, suite, tmp_path):
    """One domain and one region each run. Pings fill the driver's caches and leave nothing."""
    done = mlx5emu("run", "--suite", suite, "--check-leaks", "--", "python3", "-c", KEEPER)
    assert done.returncode == 122, done.stderr
    for kind in ("pd", "mkey"):
        assert f"objects left in the device: {kind}: {kind}: 2 more in 2 repetitions" in done.stderr
    listens = "until ss -Hltn sport = :18515 | grep -q LISTEN; do sleep 0.1; done"
    pings = f"ibv_rc_pingpong & {listens}; ibv_rc_pingpong localhost; wait"
    done = mlx5emu("run", "--suite", suite, "--check-leaks", "--", "sh", "-c", pings)
    assert done.returncode == 0, done.stderr
    assert "objects left" not in done.stderr


def test_the_plugin_fails_a_test_whose_guest_warns_or_leaks(lab, suite, tmp_path):
    (tmp_path / "test_it.py").write_text(
        "import pytest\n"
        f"KEEPER = {KEEPER!r}\n"
        f"WARNS = {WARNS!r}\n"
        "def test_warns(mlx5_guest):\n"
        "    mlx5_guest.run(WARNS).check()\n"
        "@pytest.mark.mlx5_allow('WARNING in mlx5_*')\n"
        "def test_may_warn(mlx5_guest):\n"
        "    mlx5_guest.run(WARNS).check()\n"
        "def test_is_quiet(mlx5_guest, mlx5_leaks):\n"
        "    mlx5_leaks.check(lambda: mlx5_guest.run('ibv_devinfo').check())\n"
        "def test_leaks(mlx5_guest, mlx5_leaks):\n"
        "    mlx5_leaks.check(lambda: mlx5_guest.run(['python3', '-c', KEEPER]).check())\n"
    )
    environ = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-rf", "--mlx5-suite", suite],
        cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=800, check=False,
    )  # fmt: skip
    failed = {line.partition("::")[2].split("[")[0] for line in done.stdout.splitlines()
              if line.startswith("FAILED ")}  # fmt: skip
    assert failed == {"test_warns", "test_leaks"}, done.stdout
    assert "objects left in the device: pd" in done.stdout
