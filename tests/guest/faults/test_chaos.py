"""Chaos in guests: a program for each verdict, which it gets; a seed gives the same verdicts."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from emu.cli.main import main

pytestmark = [pytest.mark.guest, pytest.mark.slow, pytest.mark.timeout(900)]
PROGRAM = Path(__file__).parents[1] / "inside" / "reactions.py"
SET = """
[[failure]]
name = "request-fails"
about = "A request completes with an error."
plan = "@completion-local-prot"
when = [2, 30]

[[failure]]
name = "page-fault"
about = "A page cannot be provided, which the test does not need."
plan = "@page-fault-fails"
"""
EVERYWHERE = """
[[failure]]
name = "request-fails"
about = "A request completes with an error."
plan = "@completion-local-prot"
when = 3

[[failure]]
name = "flap"
about = "The port is down for 100 ms."
when = 3
rule = [{ point = "load", action = "link", ms = 100 }]
"""
ETHERNET = """
for name in $(ls /sys/class/net | grep -v '^lo$'); do ip link set "$name" up; done
for device in mlx5_0 mlx5_1; do
    until grep -q fe80 /sys/class/infiniband/$device/ports/1/gids/1; do sleep 0.1; done
done
ibv_rc_pingpong -d mlx5_1 -g 1 -n 20 > /dev/null &
until ss -ltn | grep -q 18515; do sleep 0.1; done
ibv_rc_pingpong -d mlx5_0 -g 1 -n 20 127.0.0.1 || { kill $!; exit 1; }
wait $!
"""
MARKED = """
import pytest

BOTH_ENDS = '''
ibv_rc_pingpong -d mlx5_1 -n 20 > /dev/null &
until ss -ltn | grep -q 18515; do sleep 0.1; done
ibv_rc_pingpong -d mlx5_0 -n 20 127.0.0.1 || { kill $!; exit 1; }
wait $!
'''

@pytest.mark.mlx5_chaos("both.toml")
@pytest.mark.mlx5(memory=1024)
def test_ends(mlx5_guest, mlx5_failure):
    done = mlx5_guest.run(BOTH_ENDS, timeout=200)
    assert done.status == (mlx5_failure.name == "request-fails"), done
"""
CLIENT = """
until ibv_rc_pingpong -n 20 "$PEER" 2> /tmp/errors; do
    grep -q "Couldn't connect" /tmp/errors || { cat /tmp/errors >&2; exit 1; }
done
"""
EXPECTED = ["hang", "wrong-data", "wrong-data", "leak", "crash", "recovered", "error"]


def invoked(*words):
    said = ["chaos", "set.toml", "--memory", "1024", "--jobs", "1", "--compare", "--json"]
    test = ["--", "python3", "./reactions.py"]
    done = CliRunner().invoke(
        main, [*said, "--min-patience", "8", "--patience", "2", *words, *test]
    )
    assert done.exit_code in (0, 1), done.output
    return done.exit_code, json.loads(done.stdout)


def verdicts(report, name="request-fails"):
    (failure,) = (one for one in report["failures"] if one["name"] == name)
    return [(one["verdict"], one["evidence"]) for one in failure["runs"]]


@pytest.mark.suite("trixie")
@pytest.mark.usefixtures("lab")
def test_each_program_gets_its_verdict(tmp_path, monkeypatch, suite):
    monkeypatch.chdir(tmp_path)
    shutil.copy(PROGRAM, tmp_path)
    Path("set.toml").write_text(SET)
    status, report = invoked("--only", "request-fails", "--repeat", str(len(EXPECTED)))
    found = verdicts(report)
    assert [verdict for verdict, _ in found] == EXPECTED, found
    assert status == 1
    hang, wrong, silent, leak, crash, _, error = (evidence for _, evidence in found)
    assert "nanosleep" in hang
    assert wrong == "status 65"
    assert silent.startswith("output line ")
    assert leak.startswith("still running: python3; left in the adapter: ")
    assert " qp" in leak
    assert crash == "ended by SIGSEGV"
    assert error == "status 1: a request failed"
    (record,) = Path("set.chaos/records").glob("*.request-fails.0.jsonl")
    assert '"rule":"' in record.read_text()
    # The same seed, the same verdict; a failure that the test does not meet is told.
    status, again = invoked("--seed", "5", "--results", "again.chaos")
    assert verdicts(again)[0][0] == EXPECTED[5]
    assert [one for one, _ in verdicts(again, "page-fault")] == ["not-reached"]
    assert status == 0


def of_both(*words):
    """Return verdict and evidence of the two failures that programs everywhere meet."""
    Path("both.toml").write_text(EVERYWHERE)
    said = ["chaos", "both.toml", "--memory", "1024", "--jobs", "1", "--json", *words]
    done = CliRunner().invoke(main, said)
    assert done.exit_code == 0, done.output
    one, two = (each["runs"][0] for each in json.loads(done.stdout)["failures"])
    assert one["fired"] == 1
    assert two["fired"] >= 1
    return [(one["verdict"], one["evidence"][:20]), (two["verdict"], None)]


@pytest.mark.suite("trixie")
@pytest.mark.usefixtures("lab")
def test_failures_of_ethernet_ports(tmp_path, monkeypatch, suite):
    monkeypatch.chdir(tmp_path)
    found = of_both("--link", "eth", "--", "sh", "-c", ETHERNET)
    assert found == [("error", "status 1: parse WC f"), ("recovered", None)]
    (trace,) = Path("both.chaos/traces").glob("*.request-fails.0.html")
    assert "DESTROY_QP" in trace.with_suffix(".json").read_text()


@pytest.mark.suite("trixie")
@pytest.mark.usefixtures("lab")
def test_the_marker_of_pytest(tmp_path, suite):
    (tmp_path / "both.toml").write_text(EVERYWHERE)
    (tmp_path / "test_it.py").write_text(MARKED)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_it.py"],
        cwd=tmp_path, env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "2 passed" in done.stdout, done.stdout


@pytest.mark.suite("trixie")
@pytest.mark.usefixtures("lab")
def test_the_two_ends_in_two_guests(tmp_path, monkeypatch, suite):
    """The server is in the second guest, whose adapter has no faults."""
    monkeypatch.chdir(tmp_path)
    found = of_both("--peer", "ibv_rc_pingpong -n 20", "--", "sh", "-c", CLIENT)
    assert found == [("error", "status 1: parse WC f"), ("recovered", None)]
    (output,) = Path("both.chaos/outputs").glob("*.flap.0.txt")
    assert "The second guest:" in output.read_text()
