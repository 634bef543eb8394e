"""Where a Python program's commands begin, and what is said about those that cannot run."""

from __future__ import annotations

import pytest

from emu.guests import CommandFailedError, Guest, GuestOptions


class Job:
    """A command that has ended."""

    def __init__(self, name, status, stderr):
        self.name, self.status = name, status
        self.stdout, self.stderr = b"", stderr

    def wait(self, _timeout):
        return self.status


class Channel:
    """A connection to a guest in which each command ends alike."""

    is_ready = True

    def __init__(self, status=0, stderr=b""):
        self.status, self.stderr = status, stderr
        self.words = []

    def start(self, name, words, _environ, **_):
        self.words = words
        return Job(name, self.status, self.stderr)


@pytest.fixture
def guest(tmp_path, monkeypatch):
    """A guest whose user works in the directory that it shares."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "repro").write_text("#!/bin/sh\n")
    guest = Guest(GuestOptions(share=tmp_path))
    guest._channel = Channel()
    return guest


def test_commands_begin_in_the_shared_directory(guest):
    guest.run("./repro 50").check()
    assert guest._channel.words == ["env", "--chdir=/mnt/share", "sh", "-c", "./repro 50"]
    guest.run(["./repro"], cwd="/tmp")
    assert guest._channel.words == ["env", "--chdir=/tmp", "./repro"]


def test_commands_of_a_guest_that_shares_nothing_are_unchanged():
    guest = Guest(GuestOptions())
    guest._channel = Channel()
    guest.run(["true"])
    assert guest._channel.words == ["true"]


def why(guest, status, stderr, command="./repro 50"):
    """The error of a command that did not run."""
    guest._channel = Channel(status, stderr)
    with pytest.raises(CommandFailedError) as caught:
        guest.run(command).check()
    return str(caught.value)


def test_a_file_of_the_share_that_is_not_executable(guest, tmp_path):
    said = why(guest, 126, b"sh: 1: ./repro: Permission denied\n")
    assert said.splitlines()[0] == ("./repro 50: status 126: sh: 1: ./repro: Permission denied")
    assert said.splitlines()[1] == f"./repro: not executable: chmod +x {tmp_path / 'repro'}"


def test_a_file_that_the_guest_lacks(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "repro").touch()
    guest = Guest(GuestOptions())
    for command in ("./repro 50", ["./repro", "50"]):
        said = why(guest, 127, b"sh: 1: ./repro: not found\n", command)
        assert said.endswith(f'share its directory: share="{tmp_path}"')


def test_a_program_of_another_processor(tmp_path):
    head = b"\x7fELF\x02\x01" + bytes(12) + (62).to_bytes(2, "little")
    (tmp_path / "repro").write_bytes(head)
    guest = Guest(GuestOptions(share=tmp_path, arch="s390x", devices=()))
    said = why(guest, 2, b'./repro: 1: Syntax error: ")" unexpected\n')
    assert said.endswith("./repro is a program of amd64, and the guest is s390x: build it for the "
                         "guest")  # fmt: skip


@pytest.mark.parametrize(
    ("status", "stderr"),
    [(1, b"sh: 1: ./repro: not found\n"), (127, b"not a shell's\n"), (127, b"sh: 1: x: not found")],
)
def test_other_failures_have_no_second_line(guest, status, stderr):
    assert "\n" not in why(guest, status, stderr)
