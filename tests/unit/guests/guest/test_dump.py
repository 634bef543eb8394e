"""A guest's memory in a file: what QEMU is asked for, and what becomes of a failure."""

from __future__ import annotations

import contextlib
import io
import os

import pytest
from click.testing import CliRunner

from emu.cli.main import main
from emu.guests import GuestOptions
from emu.guests.errors import GuestError
from emu.guests.guest import dump
from emu.guests.options import OptionError


def header(vmcoreinfo=b"OSRELEASE=6.12.1\nPAGESIZE=4096\n"):
    return bytearray(b"KDUMP   " + bytes(4096) + vmcoreinfo)


def utsname(data):
    return [bytes(data[12 + 65 * n : 77 + 65 * n]).rstrip(b"\0") for n in range(6)]


def qemu(fails=False):
    """What QEMU does about ``dump-guest-memory``."""
    asked = []

    def execute(command, **arguments):
        asked.append((command, arguments))
        path = arguments["protocol"].removeprefix("file:")
        with open(path, "wb") as file:
            file.write(header())
        if fails:
            raise GuestError("no space left")

    return execute, asked


def test_the_file_is_complete_and_private(tmp_path):
    execute, asked = qemu()
    dump.write(execute, tmp_path / "memory")
    assert asked[0][1]["format"] == "kdump-raw-zlib"
    names = utsname((tmp_path / "memory").read_bytes())
    assert names == [b"Linux", b"guest", b"6.12.1", b"#1", b"x86_64", b"none"]
    assert (tmp_path / "memory").stat().st_mode & 0o777 == 0o600


def test_a_failure_leaves_what_was_there(tmp_path):
    (tmp_path / "memory").write_text("older")
    execute, _ = qemu(fails=True)
    with pytest.raises(GuestError, match="no space left"):
        dump.write(execute, tmp_path / "memory")
    assert [path.name for path in tmp_path.iterdir()] == ["memory"]
    assert (tmp_path / "memory").read_text() == "older"


@pytest.mark.parametrize("fails", [False, True])
def test_a_part_file_of_the_users_own_stays(tmp_path, fails):
    (tmp_path / "memory.part").write_text("precious")
    execute, _ = qemu(fails)
    with pytest.raises(GuestError) if fails else contextlib.nullcontext():
        dump.write(execute, tmp_path / "memory")
    assert (tmp_path / "memory.part").read_text() == "precious"
    assert len(list(tmp_path.iterdir())) == (1 if fails else 2)


def test_a_pipe_or_device_is_not_replaced(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    execute, asked = qemu()
    with pytest.raises(GuestError, match=f"^{pipe} is not a regular file$"):
        dump.write(execute, pipe)
    with pytest.raises(OptionError, match=f"dump: {pipe} is not a regular file"):
        GuestOptions(dump=pipe)
    result = CliRunner().invoke(main, ["dump", "dev", str(pipe)])
    assert (result.exit_code, f"{pipe} is not a regular file" in result.output) == (2, True)
    assert (asked, pipe.is_fifo(), list(tmp_path.iterdir())) == ([], True, [pipe])


@pytest.mark.hostile
@pytest.mark.parametrize(
    "text", [b"", b"OSRELEASE=", b"OSRELEASE=\x1b\n", b"OSRELEASE=" + b"x" * 99]
)
def test_a_guest_that_says_odd_things_of_itself(text):
    file = io.BytesIO(header(text))
    dump.complete(file)
    assert utsname(file.getvalue())[2] == b"unknown"
