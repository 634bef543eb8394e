"""Where a command of ``mlx5emu run`` begins, and what is said of one that the guest has not."""

import contextlib
import re
from pathlib import Path

import click
import pytest

from emu.cli.options.guest import to_options
from emu.cli.options.place import (
    CommandFileError,
    in_share,
    tell_missing,
    with_share,
)
from emu.guests import GuestOptions
from emu.guests.options.records import options_of, recorded


def test_the_working_directory_is_shared_unless_another_is(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shared = to_options(**with_share({}, no_share=False))
    assert (shared.share, shared.share_writable, shared.share_optional) == (tmp_path, False, True)
    other = to_options(**with_share({"share": (Path("/"), True)}, no_share=False))
    assert (other.share, other.share_writable, other.share_optional) == (Path("/"), True, False)
    assert to_options(**with_share({}, no_share=True)).share is None
    with pytest.raises(click.UsageError, match="not both"):
        with_share({"share": (tmp_path, False)}, no_share=True)


@pytest.mark.parametrize(
    ("has_share", "cwd", "argv"),
    [
        (False, None, ["ls"]),
        (True, None, ["env", "--chdir=/mnt/share", "ls"]),
        (True, "/tmp", ["env", "--chdir=/tmp", "ls"]),
        (True, "sub", ["env", "--chdir=/mnt/share/sub", "ls"]),
        (False, "/tmp", ["env", "--chdir=/tmp", "ls"]),
    ],
)
def test_where_it_begins(tmp_path, has_share, cwd, argv):
    (tmp_path / "sub").mkdir()
    options = GuestOptions(share=tmp_path if has_share else None)
    assert in_share(["ls"], cwd, options) == argv


@pytest.mark.parametrize("has_share", [False, True])
def test_a_command_without_a_name(tmp_path, has_share):
    options = GuestOptions(share=tmp_path if has_share else None)
    with pytest.raises(click.UsageError, match="COMMAND begins with an empty word"):
        in_share([""], None, options)


def elf(machine, order):
    """The head of a program."""
    data = {"little": 1, "big": 2}[order]
    return b"\x7fELF\x02" + bytes([data]) + bytes(12) + machine.to_bytes(2, order) + bytes(44)


@pytest.mark.parametrize(
    ("arch", "content", "said"),
    [
        (
            "s390x",
            elf(62, "little"),
            "./repro is a program of amd64, and the guest is s390x: build",
        ),
        ("arm64-16k", elf(62, "little"), "is a program of amd64, and the guest is arm64"),
        ("ppc64el", elf(21, "big"), "another processor \\(ELF machine 21\\), and the guest is ppc"),
        ("armhf", elf(183, "little"), "is a program of arm64, and the guest is armhf"),
        ("armhf", elf(40, "little"), ""),
        ("amd64", elf(62, "little"), ""),
        ("s390x", elf(22, "big"), ""),
        ("s390x", b"#!/bin/sh\n", ""),
        ("s390x", b"\x7fELF", ""),
    ],
)
def test_a_program_of_another_processor_is_refused_before_the_boot(tmp_path, arch, content, said):
    program = tmp_path / "repro"
    program.write_bytes(content)
    program.chmod(0o755)
    options = GuestOptions(share=tmp_path, arch=arch, devices=())
    if not said:
        in_share(["./repro"], None, options)
        return
    for word in ("./repro", "/mnt/share/repro"):
        with pytest.raises(CommandFileError, match=said.replace("./repro", word)) as caught:
            in_share([word, "50"], None, options)
        assert caught.value.status == 126


@pytest.mark.parametrize(
    ("word", "cwd", "status"),
    [
        ("./none", None, 127),
        ("./plain", None, 126),
        ("./program", None, 0),
        ("./program", "sub", 127),
        ("../program", "sub", 0),
        ("../none", "/mnt/share/sub", 127),
        ("../program", None, 0),  # outside the shared directory: only the guest knows
        ("./none", "/tmp", 0),
        ("none", None, 0),
        ("ls", "none", 127),
    ],
)
def test_a_missing_or_plain_file_is_refused_before_the_boot(tmp_path, word, cwd, status):
    (tmp_path / "plain").touch(0o644)
    (tmp_path / "program").touch(0o755)
    (tmp_path / "sub").mkdir()
    in_share([word], "/tmp", GuestOptions())
    is_refused = (
        pytest.raises(CommandFileError, match=re.escape(str(cwd) if word == "ls" else word))
        if status
        else contextlib.nullcontext()
    )
    with is_refused as caught:
        in_share([word], cwd, GuestOptions(share=tmp_path))
    assert getattr(caught and caught.value, "status", 0) == status


@pytest.mark.parametrize("mode", [0o644, 0o755])
def test_how_to_share_a_file_of_the_host(tmp_path, monkeypatch, capsys, mode):
    (tmp_path / "in").mkdir()
    file = tmp_path / "in" / "a"
    file.touch(mode)
    monkeypatch.chdir(tmp_path / "in")
    shared, other = GuestOptions(share=tmp_path), GuestOptions(share=tmp_path / "in")
    tell_missing(["./a"], shared.share)
    assert "the guest sees it as /mnt/share/in/a" in capsys.readouterr().err
    tell_missing([str(file)], other.share)
    said = capsys.readouterr().err
    assert "the guest sees it as /mnt/share/a" in said
    assert ("not executable" in said) == (mode == 0o644)
    tell_missing([str(file)], None)
    assert f"--share {tmp_path / 'in'}" in capsys.readouterr().err
    for words in (["a"], ["./b"], [str(tmp_path)]):
        tell_missing(words, None)
        assert not capsys.readouterr().err


def test_how_to_name_a_program_of_the_shared_directory(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir("/")
    options = GuestOptions(share=tmp_path)
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "a").touch(0o755)
    (tmp_path / "plain").touch(0o644)
    for word, cwd, said in [
        ("a", "sub", "a is a file of the shared directory: ./a runs it"),
        ("plain", None, f"not executable: chmod +x {tmp_path}/plain"),
        ("ls | wc -l", None, "-- sh -c 'ls | wc -l'"),
    ]:
        tell_missing([word], options.share, cwd)
        assert said in capsys.readouterr().err
    for words, cwd in [(["a"], None), (["ls | wc", "-l"], None), (["a"], "../..")]:
        tell_missing(words, options.share, cwd)
        assert not capsys.readouterr().err


@pytest.mark.parametrize("is_writable", [False, True])
def test_a_record_keeps_the_directory(tmp_path, is_writable):
    told = options_of(recorded(GuestOptions(share=tmp_path, share_writable=is_writable)))
    again = to_options(**told)
    assert (again.share, again.share_writable) == (tmp_path, is_writable)


def test_a_word_without_a_slash_is_looked_up_by_the_guest(tmp_path):
    (tmp_path / "ib_write_bw").write_bytes(elf(62, "little"))
    options = GuestOptions(share=tmp_path, arch="arm64", devices=())
    assert in_share(["ib_write_bw"], None, options)[-1] == "ib_write_bw"
