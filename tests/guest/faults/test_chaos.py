"""Chaos in guests: a program for each verdict, which it gets; a seed gives the same verdicts."""

from __future__ import annotations

import json
import shutil
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
