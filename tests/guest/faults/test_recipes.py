"""Recipes of chaos in guests: known programs, each with a failure that it reports."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from emu.cli.main import main

pytestmark = [pytest.mark.guest, pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.mark.suite("trixie")
@pytest.mark.usefixtures("lab")
@pytest.mark.parametrize(
    ("name", "failure", "evidence"),
    [
        ("rping", "queue-pair-refused", "setup_qp failed"),
        ("perftest", "port-down", "Failed to complete run_iter_bw"),
        ("nvmeof", "queue-pair-refused", "rdma_create_qp failed"),
    ],
)
def test_a_known_program_reports_a_failure(tmp_path, monkeypatch, name, failure, evidence):
    monkeypatch.chdir(tmp_path)
    words = ["--recipe", f"@{name}", "--only", failure, "--jobs", "1", "--json"]
    done = CliRunner().invoke(main, ["chaos", *words])
    assert done.exit_code == 0, done.output
    (found,) = json.loads(done.stdout)["failures"]
    (run,) = found["runs"]
    assert (found["verdict"], run["fired"] > 0) == ("error", True)
    assert evidence in run["evidence"]
