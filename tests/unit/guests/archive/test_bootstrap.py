"""How mmdebstrap is run, watched and blamed."""

from __future__ import annotations

import os
import re
import tarfile

import pytest

from emu.guests.archive import bootstrap
from emu.guests.archive.disk_space import DiskSpace
from emu.guests.errors import LabError

LINES = """\
I: running apt-get update...
Get:1 http://m/debian trixie InRelease
I: downloading packages with apt...
0 upgraded, 2 newly installed, 0 to remove and 0 not upgraded.
Get:1 http://m/debian trixie/main amd64 a
Get:2 http://m/debian trixie/main amd64 b
I: installing remaining packages inside the chroot...
Unpacking a (1) ...
Selecting previously unselected package b.
Setting up a (1) ...
"""


def test_progress_counts_what_packages_go_through():
    steps = []
    meter = bootstrap.BootstrapProgress("image", lambda *step: steps.append(step))
    for line in LINES.splitlines():
        meter.feed(line)
    assert steps[0] == ("image: running apt-get update", 0, 0)
    assert steps[-1] == ("image: installing remaining packages inside the chroot", 5, 6)


@pytest.mark.parametrize(
    ("log", "message"),
    [
        ("I: a\nE: Unable to locate package x\nE: setup failed\n", "Unable to locate package x"),
        ("dpkg: error processing x\n more\nE: mmdebstrap failed", "dpkg: error processing x"),
        ("I: a\ncp: no space\nE: command failed: # Run by\nset -eu\nI: done", "cp: no space"),
        ("E: command failed: # Run by", "no output"),
        ("newuidmap: no subuid\n\n", "newuidmap: no subuid"),
        ("", "no output"),
    ],
)
def test_the_first_complaint_is_told(log, message):
    assert bootstrap.first_error(log) == message


@pytest.fixture
def program(tmp_path, monkeypatch):
    """A program that passes for mmdebstrap."""

    def install(script):
        path = tmp_path / "mmdebstrap"
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")

    return install


def test_a_failure_is_one_line_with_the_place_of_the_log(program, tmp_path):
    program('echo "E: no such suite: $2" >&2; exit 1')
    log = tmp_path / "log"
    with pytest.raises(LabError, match=f"building X failed: no such suite: arg; all of it: {log}"):
        bootstrap.bootstrap(["arg"], what="X", log=log)
    assert log.read_text() == "E: no such suite: arg\n"


def test_an_interrupt_lets_it_clean_up(program, tmp_path):
    program("trap 'echo cleaned >&2; exit 1' TERM; echo 'I: one' >&2; while :; do :; done")

    def interrupted(*_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        bootstrap.bootstrap([], what="X", log=tmp_path / "log", progress=interrupted)
    assert (tmp_path / "log").read_text() == "I: one\ncleaned\n"


def test_an_interrupt_ends_what_it_has_started(program, tmp_path):
    """It waits for its own processes, so the signal has to reach them as well."""
    program(
        "trap 'wait; echo cleaned >&2; exit 1' TERM\n"
        "(echo 'I: one' >&2; exec sleep 60 2> /dev/null) & wait"
    )

    def interrupted(*_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        bootstrap.bootstrap([], what="X", log=tmp_path / "log", progress=interrupted)
    assert (tmp_path / "log").read_text() == "I: one\ncleaned\n"


def test_it_is_in_no_process_group_of_ours(program, tmp_path):
    """When it fails it sends its group SIGHUP, which would end the shell that started us."""
    program('echo "E: group $(ps -o pgid= -o sid= -p $$)" >&2; exit 1')
    with pytest.raises(LabError, match="group") as caught:
        bootstrap.bootstrap([], what="X", log=tmp_path / "log")
    group, session = re.findall(r"\d+", str(caught.value))[:2]
    assert int(group) != os.getpgrp()
    assert int(session) != os.getsid(0)


@pytest.mark.hostile
def test_files_are_taken_by_name_and_stay_below(program, tmp_path):
    """What is not wanted is left out; an archive cannot write elsewhere."""
    packed = tmp_path / "made.tar"
    with tarfile.open(packed, "w") as tar:
        for name in ("./boot/vmlinuz", "./etc/passwd", "./boot/../../out"):
            tar.addfile(tarfile.TarInfo(name))
    program(f'for word; do case $word in */packages.tar) cp {packed} "$word";; esac; done')
    target = tmp_path / "target"
    target.mkdir()
    words = ([], "trixie", ["deb x"], target, re.compile(r"\./boot/[a-z]*|\./etc"))
    bootstrap.bootstrap_files(*words, what="X", log=tmp_path / "log", space=DiskSpace(1))
    assert [str(path.relative_to(target)) for path in target.rglob("*")] == ["boot", "boot/vmlinuz"]
    words = (*words[:-1], re.compile(".*"))
    with pytest.raises((LabError, tarfile.TarError)):
        bootstrap.bootstrap_files(*words, what="X", log=tmp_path / "log", space=DiskSpace(1))
    assert not (tmp_path / "out").exists()


def test_a_success_is_silent(program, tmp_path):
    program("echo noise; echo 'I: done' >&2")
    bootstrap.bootstrap([], what="X", log=tmp_path / "log")


def test_it_may_be_missing(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(LabError, match="mmdebstrap is not installed: mlx5emu doctor"):
        bootstrap.bootstrap([], what="X", log=tmp_path / "log")
