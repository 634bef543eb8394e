"""``mlx5emu campaign``: lists, carries out, goes on, reports; mistakes are one line."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from helpers.instruments import fake_runs
from helpers.instruments.fake_runs import descriptions

from emu.cli import main as cli
from emu.cli.commands.trials import campaign as command
from emu.guests.image import image
from emu.guests.machine import qemu
from emu.instruments.campaign.description import Ended, RunFinding, RunResult
from emu.instruments.campaign.matrix import read
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


def test_only_some_of_the_runs(matrix, tmp_path):
    assert invoke("list", "--only", "*.[25]", matrix).output.split() == [
        "trixie.connectx6.w.none.2", "trixie.connectx6.w.none.5",
    ]  # fmt: skip
    result = invoke("run", matrix, "--jobs", 1, "--only", "*.2", "--only", "*.5")
    assert "2 of 2 runs, " in result.output
    assert '"missing": 4' in (tmp_path / "few.campaign" / "report.json").read_text()
    kept = [path.stem[-1] for path in sorted((tmp_path / "few.campaign" / "results").iterdir())]
    assert kept == ["2", "5"]
    # The others are done by the command without a choice, these are not done again.
    result = invoke("run", matrix, "--jobs", 1)
    assert "6/6 " in result.output
    assert "1/6 " not in result.output
    assert "2/6 " not in result.output


def test_a_run_with_a_result_is_repeated_with_again(matrix, tmp_path):
    matrix.write_text(MATRIX.replace('"true"', f'"note {tmp_path}/done"'))
    (tmp_path / "go-on").touch()
    none = "all results exist (6 runs): nothing was run; --again PATTERN repeats runs"
    assert none not in invoke("run", matrix, "--jobs", 1).output
    done = len((tmp_path / "done").read_text().splitlines())
    assert none in invoke("run", matrix, "--jobs", 1).output
    assert none in invoke("resume", "few.campaign", "--jobs", 1).output
    assert "all of 1 run have" not in invoke("run", matrix, "--only", "*.2", "--again", "*").output
    assert len((tmp_path / "done").read_text().splitlines()) == done + 1
    assert none not in invoke("resume", "few.campaign", "--again", "*.[34]").output
    assert len((tmp_path / "done").read_text().splitlines()) == done + 3
    refused = invoke("run", matrix, "--again", "nope*")
    assert "--again nope* matches no run" in refused.output


def test_the_table_says_why_a_command_is_not_found(matrix, tmp_path):
    runs = Store.create(tmp_path / "few", "few", read(matrix).runs)
    why = "./test.sh: not executable: chmod +x test.sh"
    for name in runs.runs:
        runs.put(RunResult(name=name, ended=Ended.FAILED, status=126, why=why))
    assert f"6 runs: {why}" in invoke("report", "few").output


def test_the_status_is_that_of_the_chosen_runs(matrix, tmp_path):
    invoke("run", matrix, "--jobs", 2)
    store = Store.open(tmp_path / "few.campaign")
    for name, result in store.results().items():
        good = result.ended in (Ended.PASSED, Ended.SKIPPED)
        assert invoke("run", matrix, "--only", name).exit_code == (0 if good else 1)


@pytest.mark.parametrize("command", ["list", "run"])
def test_only_what_no_run_is_called(matrix, tmp_path, command):
    result = invoke(command, "--only", "nope*", matrix)
    assert result.exit_code == 1
    assert "--only nope* matches no run; an example is trixie.connectx6.w.none.1" in result.output
    assert not (tmp_path / "few.campaign").exists()


MAIN = """
import signal
from emu.cli.commands.trials import campaign
from emu.cli.main import main
from emu.guests.image import image
from emu.guests.machine import qemu

campaign.GUEST_RUN = "helpers.instruments.fake_runs:carry_out"
qemu.ensure = image.ensure = lambda *_: None
signal.signal(signal.SIGINT, signal.default_int_handler)  # pytest may run in the background
main()
"""


@pytest.mark.parametrize(("signum", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_ctrl_c_says_what_is_done_and_the_same_command_goes_on(matrix, tmp_path, signum, status):
    matrix.write_text(MATRIX.replace('"true"', f'"note {tmp_path}/done"'))
    words = [sys.executable, "-c", MAIN, "campaign", "run", str(matrix), "--jobs", "1"]
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if line.startswith("2/6 "):
                break
        process.send_signal(signum)
        said = process.stderr.read()
    assert process.returncode == status
    assert "2 of 6 runs done; results are in few.campaign" in said
    assert "The same command continues with the rest." in said
    (tmp_path / "go-on").touch()
    again = subprocess.run(words, stderr=subprocess.PIPE, text=True, check=False)
    told = [line.split()[0] for line in again.stderr.splitlines()]
    # Reminders of a busy host begin with "N of 6".
    assert [one for one in told if "/" in one] == [f"{number}/6" for number in (3, 4, 5, 6)]
    done = (tmp_path / "done").read_text().split()
    assert [name[-1] for name in done] == ["1", "2", "3", "4", "5", "6"]


def test_an_interrupted_repetition_continues_without_again(matrix, monkeypatch):
    words = ("run", matrix, "--jobs", 1)
    invoke(*words)

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "drive_shown", interrupted)
    again = invoke(*words, "--again", "*1")
    assert again.exit_code == 130
    assert "5 of 6 runs done; " in again.stderr
    assert "The same command without --again continues with the rest." in again.stderr
    assert "The same command continues with the rest." in invoke(*words).stderr


def test_cells_are_compared_with_what_is_expected(matrix):
    matrix.write_text(MATRIX + '[[plan]]\nexpect = ["passed", "skipped"]\n')
    output = invoke("run", matrix, "--jobs", 2).output
    # Runs without a guest say nothing of what was expected of them.
    assert "unexpected" not in output
    store = Store.open(Path("few.campaign"))
    for number, result in enumerate(store.results().values()):
        why = "" if number else "found, not passed or skipped"
        store.put(result.model_copy(update={"otherwise": why}))
    output = invoke("report", "few.campaign").output
    assert "of 6, unexpected 1 of 6" in output
    assert output.splitlines()[-2].endswith("findings; unexpected 1 of 6")


def test_a_plan_that_never_fired_is_told(matrix):
    invoke("run", matrix, "--jobs", 2)
    store = Store.open(Path("few.campaign"))
    name, result = next(iter(store.results().items()))
    store.put(result.model_copy(update={"ended": Ended.PASSED, "rules": 1}))
    output = invoke("report", "few.campaign").output
    assert ", no fault fired in 1 of 6" in output
    assert output.splitlines()[-2].endswith("; no fault fired in 1 of 6")
    output = invoke("run", matrix, "--only", name).output
    assert "passed, no fault fired" in output
    assert output.splitlines()[-2] == "1 of 1 runs, 0 findings; no fault fired"


def test_tables_in_a_pipe_have_one_line_a_row(matrix, monkeypatch):
    monkeypatch.setenv("COLUMNS", "30")
    invoke("run", matrix, "--jobs", 2)
    lines = [line.split() for line in invoke("report", "few.campaign").output.splitlines()]
    assert ["kernel", *(ended.value for ended in Ended)] in lines
    assert [line[:2] for line in lines if line[:1] == ["trixie"]] == [["trixie", "2"]]
    assert ["finding", "kind", "runs", "kernels", "plans", "record"] in lines


def test_jobs_are_not_for_a_cluster(matrix):
    result = invoke("run", matrix, "--jobs", 2, "--dask", "tcp://127.0.0.1:1")
    assert (result.exit_code, "use --jobs or --dask" in result.output) == (2, True)


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

    def minimize_plan(run, record, title, carry_out):
        asked.append((run.name, record, title))
        return "seed = 7\n"

    monkeypatch.setattr(command, "minimize_plan", minimize_plan)
    for _ in range(2):
        invoke("report", store.path, "--minimize")
    assert asked == [(run.name, fake_runs.RECORD, title)]
    (plan,) = (store.path / "minimized").iterdir()
    assert plan.read_text() == "seed = 7\n"
    assert f"minimized/{plan.name}" in (store.path / "report.html").read_text()


def test_a_plan_that_is_expected_to_fail_ends_with_status_0(matrix):
    """The fake runs end by their seed: some pass, others fail or have findings."""
    ends = '["passed", "failed", "found", "skipped"]'
    matrix.write_text(f"{MATRIX}[[plan]]\nexpect = {ends}\n")
    assert invoke("run", matrix, "--jobs", 2).exit_code == 0
    matrix.write_text(f'{MATRIX}[[plan]]\nexpect = "skipped"\n')
    assert invoke("run", matrix, "--jobs", 2, "--again", "*").exit_code == 1
