"""A child process runs the code of its parent, whatever lies in the current folder."""

import subprocess
import sys
from pathlib import Path

import emu
from emu.host.process_identity import module_command

HOME = Path(emu.__file__).parents[1]


def test_other_sources_in_the_current_folder_are_not_run(tmp_path, monkeypatch):
    (tmp_path / "emu").mkdir()
    (tmp_path / "emu" / "__init__.py").write_text("raise SystemExit(7)\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(HOME))
    assert module_command("emu.cli.main") == [sys.executable, "-P", "-m", "emu.cli.main"]
    assert subprocess.run([*module_command("emu"), "--version"], check=False).returncode == 0


def test_sources_of_the_current_folder_that_run_here_are_run_there_too(monkeypatch):
    monkeypatch.chdir(HOME)
    assert module_command("emu") == [*module_command("emu")]
