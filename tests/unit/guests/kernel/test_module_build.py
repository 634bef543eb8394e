"""Building a module outside the kernel's tree: what runs, where, and what is refused."""

from __future__ import annotations

import os
import tarfile

import pytest
from click.testing import CliRunner

from emu.cli.main import main
from emu.guests import LabError
from emu.guests.kernel import headers, module_build

RELEASE = "6.12.1+deb13-amd64"


@pytest.fixture
def programs(tmp_path, monkeypatch):
    """Puts a program of that name before all others."""
    directory = tmp_path / "bin"
    directory.mkdir()
    monkeypatch.setenv("PATH", f"{directory}:/usr/bin:/bin")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    def install(name, script):
        (directory / name).write_text(f"#!/bin/sh\n{script}\n")
        (directory / name).chmod(0o755)

    return install


@pytest.fixture
def archive(programs, tmp_path):
    """An archive with these files: mmdebstrap says its words in ``said``."""

    def has(*names):
        packed = tmp_path / "made.tar"
        with tarfile.open(packed, "w") as tar:
            for name in names:
                tar.addfile(tarfile.TarInfo(name))
        programs(
            "mmdebstrap",
            f'printf "%s\\n" "$@" >> {tmp_path}/said\n'
            f'for word; do case $word in */packages.tar) cp {packed} "$word";; esac; done',
        )

    return has


@pytest.fixture
def module(tmp_path):
    directory = tmp_path / "module"
    directory.mkdir()
    (directory / "Makefile").write_text("obj-m := x.o\n")
    return directory


def test_headers_are_fetched_once(archive, tmp_path):
    makefile = f".{headers.source(RELEASE)}/Makefile"
    archive(
        makefile, "./usr/share/doc/gcc/README", "./usr/share/misc/x", "./var/lib/x", "./lib64/y"
    )
    root = headers.ensure(RELEASE, ["trixie"])
    assert headers.ensure(RELEASE, ["trixie"]) == root
    files = {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}
    assert files == {makefile[2:], "usr/share/misc/x", "lib64/y"}
    said = (tmp_path / "said").read_text().splitlines()
    (included,) = (word for word in said if word.startswith("--include="))
    assert f"linux-headers-{RELEASE}" in included
    assert "make" in included.split(",")


def test_an_archive_without_them_leaves_nothing(archive):
    archive("./usr/bin/make")
    with pytest.raises(LabError, match="contains no headers"):
        headers.ensure(RELEASE, ["trixie"])
    archive(f".{headers.source(RELEASE)}/Makefile")
    assert headers.ensure(RELEASE, ["trixie"]).is_dir()


@pytest.mark.parametrize("release", ["", "../x", "6.12,linux", "6.12 x"])
def test_what_is_no_release(release):
    with pytest.raises(LabError, match="no headers of kernel"):
        headers.ensure(release, ["trixie"])


def test_make_runs_in_the_root_of_the_headers(programs, module, tmp_path, monkeypatch):
    """Nothing of the host's environment gets in; root needs no user namespace."""
    programs("unshare", 'printf "%s\\n" "$@" > $0.said; env > $0.environ')
    monkeypatch.setenv("CFLAGS", "-Dhost")
    for user, words in ((0, ["--mount"]), (1000, ["--map-root-user", "--mount"])):
        monkeypatch.setattr(os, "geteuid", lambda user=user: user)
        module_build.against_headers(tmp_path / "root", RELEASE, module, 3, ["W=1", "modules"])
        said = (tmp_path / "bin" / "unshare.said").read_text().splitlines()
        assert said[: len(words)] == words
        assert said[said.index("make") :] == [
            *("make", "-j3", "--no-print-directory", "-C", headers.source(RELEASE)),
            *(f"M={module}", "W=1", "modules"),
        ]
    assert "CFLAGS" not in (tmp_path / "bin" / "unshare.environ").read_text()


def test_against_a_build_tree_make_is_the_hosts(programs, module, tmp_path, capfd):
    programs("make", 'printf "%s " "$@"')
    (tmp_path / "linux").mkdir()
    (tmp_path / "linux" / "Makefile").touch()
    words = ["kernel", "module", "--kernel", str(tmp_path / "linux"), "-j", "1", str(module)]
    assert CliRunner().invoke(main, words).exit_code == 0
    said = capfd.readouterr().out.split()
    assert said[-4:] == ["-C", str(tmp_path / "linux"), f"M={module}", "modules"]


def test_a_build_that_fails_is_told(programs, module, tmp_path):
    programs("unshare", "exit 2")
    with pytest.raises(LabError, match=r"make failed in .* with status 2"):
        module_build.against_headers(tmp_path, RELEASE, module, 1)
    programs("make", "exit 3")
    with pytest.raises(LabError, match="with status 3"):
        module_build.against_tree(tmp_path, module, 1)


def test_a_directory_without_sources(tmp_path):
    done = CliRunner().invoke(main, ["kernel", "module", str(tmp_path)])
    assert done.exit_code == 1
    assert "has no sources of a module" in done.output
