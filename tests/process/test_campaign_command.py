"""``mlx5emu campaign``: lists, carries out, goes on, reports; mistakes are one line."""

from __future__ import annotations

import pytest
from click.testing import CliRunner
from helpers.instruments import fake_runs
from helpers.instruments.fake_runs import descriptions

from emu.cli import main as cli
from emu.cli.commands.trials import campaign as command
from emu.guests.image import image
from emu.guests.machine import qemu
from emu.instruments.campaign.description import RunFinding
from emu.instruments.campaign.store import Store
from emu.instruments.outcome import Kind

MATRIX = """
name = "few"
seeds = [1, 2, 3, 4, 5, 6]
[[workload]]
name = "w"
run = "true"
"""


def invoke(*words):
    return CliRunner().invoke(cli.main, ["campaign", *map(str, words)])


@pytest.fixture
def matrix(tmp_path, monkeypatch, pytestconfig):
    """A matrix whose runs are not carried out in guests."""
    monkeypatch.setenv("PYTHONPATH", f"{pytestconfig.rootpath}:{pytestconfig.rootpath / 'tests'}")
    monkeypatch.setattr(command, "GUEST_RUN", fake_runs.NAME)
    monkeypatch.setattr(qemu, "ensure", lambda *_: None)
    monkeypatch.setattr(image, "ensure", lambda *_: None)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "matrix.toml"
    path.write_text(MATRIX)
    return path


def test_list_shows_the_runs(matrix):
    result = invoke("list", matrix)
    assert result.output.split() == [f"trixie.connectx6.w.none.{seed}" for seed in range(1, 7)]


def test_run_reports_and_goes_on(matrix, tmp_path):
    result = invoke("run", matrix, "--jobs", 2)
    assert result.exit_code == 1  # some of them find something
    assert "6 of 6 runs" in result.output
    directory = tmp_path / "few.campaign"
    assert {"report.html", "report.json", "report.tap", "report.xml"} <= {
        one.name for one in directory.iterdir()
    }
    # Nothing is left to do: no worker is started.
    lost = directory / "results" / "trixie.connectx6.w.none.3.json"
    before = (directory / "report.json").read_bytes()
    lost.unlink()
    assert "5 of 6 runs, 1 missing" in invoke("report", directory).output
    assert "6/6 trixie.connectx6.w.none.3" in invoke("resume", directory).output
    assert (directory / "report.json").read_bytes() == before


def test_jobs_are_not_for_a_cluster(matrix):
    result = invoke("run", matrix, "--jobs", 2, "--dask", "tcp://127.0.0.1:1")
    assert (result.exit_code, "--jobs is for this machine" in result.output) == (2, True)


def test_a_finding_is_minimized_once(matrix, tmp_path, monkeypatch):
    (run,) = descriptions(1)
    store = Store.create(tmp_path / "one", "one", [run])
    found = fake_runs.carry_out(run.model_copy(update={"name": "a.cx6.work.plan0.0"}))
    title = "WARNING in one"
    told = RunFinding(kind=Kind.WARNING, title=title)
    store.put(
        found.model_copy(update={"name": run.name, "findings": (told,), "record": fake_runs.RECORD})
    )
    asked = []

    def minimal(run, record, title, carry_out):
        asked.append((run.name, record, title))
        return "seed = 7\n"

    monkeypatch.setattr(command, "minimal", minimal)
    for _ in range(2):
        invoke("report", store.path, "--minimize")
    assert asked == [(run.name, fake_runs.RECORD, title)]
    (plan,) = (store.path / "minimized").iterdir()
    assert plan.read_text() == "seed = 7\n"
    assert f"minimized/{plan.name}" in (store.path / "report.html").read_text()
