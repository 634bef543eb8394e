"""The tools that a build needs, with the command that installs each."""

from __future__ import annotations

import importlib.util
import sysconfig

import pytest

from emu.compiled import building


@pytest.fixture
def tools(tmp_path, monkeypatch):
    """A machine with all of them; returns the folder of its only program, cc."""
    (tmp_path / "cc").write_text("#!/bin/sh\n")
    (tmp_path / "cc").chmod(0o755)
    (tmp_path / "Python.h").touch()
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setattr(sysconfig, "get_path", lambda _: str(tmp_path))
    monkeypatch.setattr(sysconfig, "get_config_var", lambda _: "gcc-of-elsewhere -x")
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: True)
    return tmp_path


def test_all_are_there(tools, monkeypatch):
    assert building.missing() == ""
    assert building._compiler() == "cc"
    monkeypatch.setenv("CC", f"{tools}/cc -pipe")
    assert building._compiler() == f"{tools}/cc -pipe"


def test_no_mypyc(tools, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name == "setuptools")
    assert building.missing() == "compiled code needs mypy: pip install 'mlx5emu[compiled]'"


def test_no_compiler(tools):
    (tools / "cc").unlink()
    assert building.missing() == "compiled code needs a C compiler: apt-get install gcc libc6-dev"


def test_no_headers(tools):
    (tools / "Python.h").unlink()
    assert building.missing() == "compiled code needs Python.h: apt-get install python3-dev"
