"""Guests that live on: up, exec, dmesg, ps, down, and what a panic leaves to see."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from emu.lab.recipe import DEFAULT_SUITE

pytestmark = [pytest.mark.guest, pytest.mark.suite(DEFAULT_SUITE)]


@pytest.fixture
def mlx5emu(lab, tmp_path_factory):
    """The command line with a runtime directory of the test's own; what is up goes down."""
    environ = os.environ | {"XDG_RUNTIME_DIR": str(tmp_path_factory.mktemp("r"))}

    def call(*words, **options):
        command = [sys.executable, "-m", "emu", *words]
        options = {"capture_output": True, "check": False, "env": environ} | options
        return subprocess.run(command, **options)

    yield call
    call("down", "--all")


def test_ten_commands_of_one_boot(mlx5emu, tmp_path):
    up = mlx5emu("up", "dev", "--out", str(tmp_path / "out"), "--memory", "1024")
    assert (up.returncode, up.stderr) == (0, b"")
    assert b"mlx5_0" in mlx5emu("exec", "dev", "--", "ibv_devices").stdout
    data = os.urandom(3_000_000)
    echo = mlx5emu("exec", "dev", "--", "sh", "-c", "cat; echo e >&2; exit 9", input=data)
    assert (echo.returncode, echo.stdout, echo.stderr) == (9, data, b"e\n")
    mlx5emu("exec", "dev", "--", "touch", "/var/kept", "/mnt/out/back")
    assert mlx5emu("exec", "dev", "--", "test", "-e", "/var/kept").returncode == 0
    assert (tmp_path / "out" / "back").exists()
    assert b"mlx5_core" in mlx5emu("dmesg", "dev").stdout
    assert b"dev" in mlx5emu("ps").stdout
    console = mlx5emu("exec", "-t", "dev", "--", "sh", "-c", "test -t 0 && tty && stty size")
    assert b"/dev/pts/" in console.stdout
    assert b"runs already" in mlx5emu("up", "dev").stderr
    panic = mlx5emu("exec", "dev", "--", "sh", "-c", "echo c > /proc/sysrq-trigger; sleep 60")
    assert panic.returncode == 125
    assert b"the guest panicked" in panic.stderr
    assert mlx5emu("down", "dev").stdout == b"dev is down\n"
    assert b"no guests" in mlx5emu("ps").stdout


def test_a_start_that_fails_says_why(mlx5emu):
    up = mlx5emu("up", "dev", "--device", "nosuch")
    assert up.returncode == 123
    assert b"nosuch" in up.stderr
    assert b"no guests" in mlx5emu("ps").stdout
