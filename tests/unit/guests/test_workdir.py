"""Directories of runs: gone at the end, and when the process has died without one."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile

import pytest

from emu.guests import workdir
from emu.guests.workdir import work_directory

KEEPER = """
from emu.guests.workdir import work_directory

with work_directory() as path:
    (path / "initrd").touch()
    print(path, flush=True)
    input()
"""


@pytest.fixture(autouse=True)
def temporary(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    return tmp_path


@pytest.fixture
def workdir_owner():
    """Another process with a directory, and the directory."""
    command, pipe = [sys.executable, "-c", KEEPER], subprocess.PIPE
    with subprocess.Popen(command, text=True, stdin=pipe, stdout=pipe) as process:
        yield process, process.stdout.readline().strip()
        process.kill()


def test_a_directory_ends_with_its_block(temporary):
    with work_directory() as path:
        assert path.stat().st_mode & 0o077 == 0
        (path / "socket").touch()
    assert not list(temporary.iterdir())


def test_what_a_killed_process_leaves_goes_when_the_next_one_starts(temporary, workdir_owner):
    process, left = workdir_owner
    with work_directory() as path:  # it still runs
        assert {str(one) for one in temporary.iterdir()} == {left, str(path)}
    process.kill()
    process.wait()
    with work_directory() as path:
        assert list(temporary.iterdir()) == [path]


@pytest.mark.hostile
def test_what_others_have_put_there_stays(temporary):
    (temporary / f"{workdir.PREFIX}file").touch()
    elsewhere = temporary / "elsewhere"
    elsewhere.mkdir()
    (temporary / f"{workdir.PREFIX}link").symlink_to(elsewhere)
    before = sorted(temporary.iterdir())
    with work_directory():
        pass
    assert sorted(temporary.iterdir()) == before
    assert elsewhere.is_dir()


def test_one_that_is_swept_before_it_is_locked_is_made_again(temporary, monkeypatch):
    made = [temporary / f"{workdir.PREFIX}{number}" for number in range(3)]

    def mkdtemp(prefix):
        path = made.pop(0)
        path.mkdir()
        if made:
            shutil.rmtree(path)
        return str(path)

    monkeypatch.setattr(tempfile, "mkdtemp", mkdtemp)
    with work_directory() as path:
        assert path.name.endswith("2")
        assert path.is_dir()
