"""Carrying out: local workers that die, errors, full disks, interruptions; equal reports."""

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from helpers.instruments import fake_runs
from helpers.instruments.campaigns import driven, reported
from helpers.instruments.fake_runs import carry_out, descriptions

from emu.host.user_error import UserError
from emu.instruments.campaign.child import MAX_ATTEMPTS
from emu.instruments.campaign.description import Ended
from emu.instruments.campaign.drive import MAX_ERRORS, drive
from emu.instruments.campaign.local import Local
from emu.instruments.campaign.store import Store


class Here:
    """Carries runs out in this process, backwards if asked to."""

    def __init__(self, step=1):
        self.step = step
        self.names = []

    def results(self, runs):
        for run in runs[:: self.step]:
            self.names.append(run.name)
            yield carry_out(run)


@pytest.fixture(autouse=True)
def _helpers_for_workers(monkeypatch, pytestconfig):
    monkeypatch.setenv("PYTHONPATH", f"{pytestconfig.rootpath}:{pytestconfig.rootpath / 'tests'}")


def test_reports_are_equal_in_any_order_and_from_processes(tmp_path):
    runs = descriptions(60)
    expected = reported(driven(tmp_path / "a", runs, Here()))
    assert reported(driven(tmp_path / "b", runs, Here(-1))) == expected
    assert reported(driven(tmp_path / "c", runs, Local(2, fake_runs.NAME))) == expected


def test_a_worker_that_dies_is_replaced_and_its_run_done_again(tmp_path):
    runs = descriptions(100)
    mark = tmp_path / "died"
    runs[50] = runs[50].model_copy(update={"command": f"die-once {mark}"})
    store = driven(tmp_path / "a", runs, Local(2, fake_runs.NAME))
    assert mark.exists()
    assert reported(store) == reported(driven(tmp_path / "b", runs, Here()))


def test_a_run_that_kills_every_worker_is_an_error_and_tried_again_later(tmp_path):
    runs = descriptions(3)
    runs[1] = runs[1].model_copy(update={"command": "die"})
    store = driven(tmp_path, runs, Local(1, fake_runs.NAME))
    result = store.results()[runs[1].name]
    assert result.ended is Ended.ERROR
    assert result.why.startswith(f"{MAX_ATTEMPTS} attempts: the worker ended with status -9")
    assert store.pending() == [runs[1]]


def test_an_exception_in_a_run_is_an_error_of_this_run(tmp_path):
    runs = descriptions(2)
    runs[0] = runs[0].model_copy(update={"command": "break"})
    store = driven(tmp_path, runs, Local(1, fake_runs.NAME))
    assert "a mistake" in store.results()[runs[0].name].why
    assert [run.name for run in store.pending()] == [runs[0].name]


def test_a_lab_that_works_nowhere_ends_the_campaign(tmp_path):
    runs = descriptions(50)
    with pytest.raises(UserError, match=f"{MAX_ERRORS} consecutive runs .* no QEMU"):
        driven(tmp_path, runs, Local(2, fake_runs.NO_LAB))


def test_an_interrupted_campaign_goes_on_where_it_was(tmp_path):
    runs = descriptions(40)

    def interrupted(done, total, result):
        if done == 15:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        driven(tmp_path, runs, Local(2, fake_runs.NAME), interrupted)
    again = Here()
    store = Store.open(tmp_path)
    assert len(store.pending()) == 25
    told = []
    drive(store, again, lambda done, total, result: told.append((done, total)))
    assert len(again.names) == 25
    assert (told[0], told[-1]) == ((15, 40), (40, 40))


def test_a_full_disk_ends_it_with_the_files_name_and_loses_nothing(tmp_path, monkeypatch):
    runs = descriptions(20)
    full = OSError(errno.ENOSPC, "No space left on device")
    calls = []

    def fsync(descriptor):
        calls.append(descriptor)
        if len(calls) == 16:
            raise full

    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(OSError, match="No space left") as caught:
        driven(tmp_path, runs, Here())
    folder = Path(caught.value.filename).relative_to(tmp_path).parts[0]
    assert folder in ("outputs", "records", "results")
    assert not list(tmp_path.rglob("*.part"))
    kept = Store.open(tmp_path).results()
    assert 5 <= len(kept) < 12
    assert reported(driven(tmp_path, runs, Here())) == reported(
        driven(tmp_path / "whole", runs, Here())
    )


def test_a_directory_is_for_one_campaign_and_one_process(tmp_path):
    store = Store.create(tmp_path, "many", descriptions(3))
    for runs, why in (
        (descriptions(4), "1 run of the matrix not in it, such as "),
        (descriptions(2), "1 run not in the matrix, such as "),
        (descriptions(3, command="false"), r"another run \(false, not true\) of 3 runs, such as "),
        (descriptions(3)[::-1], "the same in another order"),
    ):
        with pytest.raises(UserError, match=rf"a campaign with other runs \(.*{why}"):
            Store.create(tmp_path, "many", runs)
    with store.locked(), pytest.raises(UserError, match="another process"), store.locked():
        pass


@pytest.mark.hostile
@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", *(f'{{"campaign":{at},"name":"x","runs":[]}}' for at in (1, 3)), "\x00"],
)
def test_a_damaged_directory_is_refused_in_a_line(tmp_path, text):
    (tmp_path / "campaign.json").write_text(text)
    with pytest.raises(UserError, match="is damaged or of another version"):
        Store.open(tmp_path)
    with pytest.raises(UserError, match=r"campaign\.json is missing"):
        Store.open(tmp_path / "nothing")


@pytest.mark.hostile
def test_a_damaged_result_counts_as_none(tmp_path):
    runs = descriptions(3)
    store = driven(tmp_path, runs, Here())
    (tmp_path / "results" / f"{runs[1].name}.json").write_text("{")
    other = (tmp_path / "results" / f"{runs[0].name}.json").read_text()
    (tmp_path / "results" / f"{runs[2].name}.json").write_text(other)
    assert store.pending() == [runs[1], runs[2]]


@pytest.mark.hostile
def test_names_of_runs_are_no_paths():
    with pytest.raises(ValueError, match="should match pattern"):
        descriptions(1, kernels=("../../x",))


SIGNALLED_AT_THE_END = """
import os, signal, threading
from emu.instruments.campaign import worker

worker.IDLE_SECONDS = {idle}
threading._register_atexit(os.kill, os.getpid(), signal.SIGTERM)
worker.main()
"""


@pytest.mark.parametrize(("idle", "status"), [(0, 0), (300, 128 + signal.SIGTERM)])
def test_a_signal_while_a_worker_ends_is_silent(idle, status):
    """The end of the input and the parent both send one."""
    words = [sys.executable, "-c", SIGNALLED_AT_THE_END.format(idle=idle), fake_runs.NAME]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stderr is not None
        if idle:
            process.stdin.close()
        assert process.stderr.read() == b""
    assert process.returncode == status
