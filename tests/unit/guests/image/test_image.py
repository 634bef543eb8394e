"""Images with extra packages: made of another image, whole or not at all. No mmdebstrap runs."""

from __future__ import annotations

import json
import os
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from emu.cli.main import main
from emu.guests import cache
from emu.guests.errors import LabError
from emu.guests.image import build, image, wheels
from emu.guests.image.recipe import recipe

MIRROR = "http://archive.invalid/debian"
WORKS = """
for word; do
    case $word in
    *"dump / "*) from=$(echo "$word" | sed -n 's,.* \\(/proc/self/fd/[0-9]*\\)$,\\1,p') ;;
    *mke2fs*) to=$(echo "$word" | grep -o '/proc/self/fd/[0-9]*' | head -n 1) ;;
    esac
done
{ cat "$from"; echo extended; } > "$to"
"""
PIP = """#!/usr/bin/env python3
import pathlib, sys
words = sys.argv[1:]
pathlib.Path(__file__).with_name("pip-words").write_text("\\0".join(words))
if "gone" in words:
    print("ERROR: Could not find a version that satisfies the requirement gone"
          " (from versions: none)", file=sys.stderr)
    sys.exit("ERROR: No matching distribution found for gone")
target = pathlib.Path(words[words.index("--target") + 1])
(target / "bin").mkdir(parents=True)
(target / "mine.py").write_text("")
(target / "bin" / "mine").write_text(f"#!{sys.executable}\\nimport mine\\n")
"""
STATUS = """Package: libc6
Status: install ok installed
Version: 2.41-12

Package: python3
Version: 3.13.5-1
"""
FAILS = 'echo "E: Unable to locate package gone" >&2; exit 100'


@pytest.fixture
def mmdebstrap(tmp_path, monkeypatch):
    """Installs a script in mmdebstrap's place, which keeps the words of each call in a file."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("MLX5EMU_MIRROR", MIRROR)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    words = tmp_path / "words"
    words.touch()

    def install(script):
        program = tmp_path / "mmdebstrap"
        keep = f'for word; do printf "%s\\0" "$word"; done >> {words}; echo "++" >> {words}'
        program.write_text(f"#!/bin/sh\nset -e\n{keep}\n{script}\n")
        program.chmod(0o755)
        return lambda: [call.split("\0") for call in words.read_text().split("++\n")[:-1]]

    return install


def store_base(suite):
    """An image of a suite without extra packages, as if it had been built."""
    wanted = recipe(suite)
    path = cache.subdir("images") / wanted.name
    (path / "modules").mkdir(parents=True)
    for name in ("root.ext4", "vmlinuz", "modules/virtio.ko"):
        (path / name).write_text(f"{name}\n")
    info = {"suite": suite, "key": wanted.key, "release": "6", "rdma_core": "5", "built": "b"}
    cache.save_json(path / "info.json", info | {"modules": ["virtio.ko"]})
    return path


def names():
    return {path.name for path in cache.subdir("images").iterdir()}


def test_an_image_is_extended(mmdebstrap):
    calls = mmdebstrap(WORKS)
    base = store_base("trixie")
    built = image.ensure("trixie", ["ucx-utils", "bc"])
    assert built.root_disk.read_text() == "root.ext4\nextended\n"
    assert (built.release, built.packages) == ("6", ["bc", "ucx-utils"])
    assert built.boot_modules() == [("virtio.ko", b"modules/virtio.ko\n")]
    assert built.kernel.samefile(base / "vmlinuz")
    assert built.is_current
    ((*words, suite, where, source, _),) = calls()
    assert (suite, where) == ("trixie", "/dev/null")
    assert MIRROR in source
    assert not [word for word in words if not word.startswith("--")]
    assert image.ensure("trixie", ["bc", "ucx-utils"]) == built
    assert len(calls()) == 1


def test_the_base_may_go(mmdebstrap):
    mmdebstrap(WORKS)
    store_base("trixie")
    built = image.ensure("trixie", ["bc"])
    image.remove(next(found for found in image.cached() if not found.packages))
    assert built.kernel.read_text() == "vmlinuz\n"
    assert names() == {built.path.name}


def test_a_package_that_is_not_there_leaves_no_image(mmdebstrap):
    mmdebstrap(FAILS)
    base = store_base("trixie")
    with pytest.raises(LabError, match="guest image trixie with gone failed: Unable to locate pac"):
        image.ensure("trixie", ["gone"])
    assert names() == {base.name}


def test_a_package_that_is_not_there_is_told_before_a_base_is_built(mmdebstrap):
    calls = mmdebstrap(FAILS)
    with pytest.raises(LabError, match="Unable to locate package gone"):
        image.ensure("sid", ["gone"])
    (words,) = calls()
    assert {"--simulate", "--include=gone"} <= {*words}
    assert names() == set()


def test_a_package_that_every_guest_has_needs_no_build(mmdebstrap):
    calls = mmdebstrap(FAILS)
    base = store_base("trixie")
    assert image.ensure("trixie", ["perftest"]).path == base
    assert calls() == []


def test_the_list_tells_the_packages(mmdebstrap):
    mmdebstrap(WORKS)
    store_base("trixie")
    image.ensure("trixie", ["bc"])
    said = CliRunner().invoke(main, ["guest", "list"]).output
    assert sorted(line.split()[-2:] for line in said.splitlines()[1:]) == [
        ["current", "bc"],
        ["kB", "current"],
    ]
    rows = json.loads(CliRunner().invoke(main, ["guest", "list", "--json"]).output)
    assert list(rows[0]) == said.splitlines()[0].split()
    assert sorted(row["packages"] for row in rows) == [[], ["bc"]]


def test_the_list_is_sorted_by_suite_architecture_and_date(mmdebstrap, monkeypatch):
    store_base("trixie")
    (one,) = image.cached()
    about = [("trixie", "arm64", "1"), ("sid", "s390x", "3"), ("trixie", "amd64", "2")]
    about += [("trixie", "amd64", "1")]
    images = [replace(one, suite=suite, arch=arch, built=built) for suite, arch, built in about]
    monkeypatch.setattr(image, "cached", lambda: images)
    rows = json.loads(CliRunner().invoke(main, ["guest", "list", "--json"]).output)
    assert [(row["suite"], row["arch"], row["built"]) for row in rows] == sorted(about)


@pytest.mark.parametrize(
    "words",
    [("guest", "build"), ("run", "true"), ("boot",), ("rdma-tests",)],
    ids=lambda words: words[0],
)
def test_a_bad_name_is_refused_before_anything_is_done(mmdebstrap, words):
    calls = mmdebstrap(FAILS)
    command = [words[0], *words[1:2]] if words[0] == "guest" else [words[0]]
    rest = [] if words[0] == "guest" else list(words[1:])
    result = CliRunner().invoke(main, [*command, "--package=-oDpkg::Options=x", *rest])
    assert result.exit_code == 2
    assert "'-oDpkg::Options=x' is not the name of a Debian package" in result.output
    assert calls() == []
    assert not Path(os.environ["XDG_CACHE_HOME"]).exists()


@pytest.fixture
def pip(mmdebstrap, tmp_path, monkeypatch):
    """Installs a pip that makes a package; returns its words, and the archive of the image."""
    (tmp_path / "pip").write_text(PIP)
    (tmp_path / "pip").chmod(0o755)
    monkeypatch.setattr(wheels, "_pip", lambda: [str(tmp_path / "pip")])
    monkeypatch.setattr(build, "copy_out", lambda disk, work, names: [
        (work / name).write_text(STATUS) for name in names.values()
    ])  # fmt: skip
    taken = tmp_path / "taken.tar"
    mmdebstrap(f"""{WORKS}
for word; do
    case $word in
    *compileall*) packed=$(echo "$word" | grep -o '/proc/self/fd/[0-9]*' | tail -n 1) ;;
    esac
done
[ -z "$packed" ] || cat "$packed" > {taken}""")
    return lambda: (tmp_path / "pip-words").read_text().split("\0"), taken


def test_python_packages_are_packed_for_the_guest(pip, tmp_path):
    words, taken = pip
    store_base("trixie")
    wheel = tmp_path / "mine-1.0-py3-none-any.whl"
    wheel.write_text("first")
    built = image.ensure("trixie", [], python=["six==1.17.0", str(wheel)])
    assert {
        "six==1.17.0",
        str(wheel),
        "--python-version=3.13",
        "--only-binary=:all:",
        "--platform=manylinux_2_41_x86_64",
        "--platform=manylinux_2_5_x86_64",
    } < {*words()}
    with tarfile.open(taken) as tar:
        members = {one.name: one for one in tar}
        program = tar.extractfile("usr/local/bin/mine").read()
    assert set(members) == {"usr/local/bin/mine", "usr/local/lib/python3.13/dist-packages/mine.py"}
    assert {(one.uid, one.gname) for one in members.values()} == {(0, "root")}
    assert program == b"#!/usr/bin/python3\nimport mine\n"
    assert [one.partition(" ")[0] for one in built.python] == [wheel.name, "six==1.17.0"]
    assert built.is_current
    assert not list(built.path.glob("python*"))
    # The same words are the same image; another content of the wheel makes another one.
    assert image.ensure("trixie", python=[str(wheel), "six==1.17.0"]) == built
    wheel.write_text("second")
    assert image.ensure("trixie", python=[str(wheel), "six==1.17.0"]).path != built.path


def test_a_python_package_that_is_not_there_leaves_no_image(pip):
    base = store_base("trixie")
    with pytest.raises(LabError, match="image trixie with gone: no package gone; all of") as caught:
        image.ensure("trixie", python=["gone"])
    assert caught.value.status == 2
    assert names() == {base.name}


@pytest.mark.parametrize(
    "word", ["-r/etc/passwd", "./mine", "mine @ file:///x", "a>1", "mine.whl", "", "a b", "--pre"]
)
@pytest.mark.parametrize("command", [("guest", "build"), ("run",), ("chaos",)])
def test_a_bad_python_name_is_refused_before_anything_is_done(mmdebstrap, command, word):
    calls = mmdebstrap(FAILS)
    rest = [] if command[0] == "guest" else ["--", "true"]
    result = CliRunner().invoke(main, [*command, f"--pip={word}", *rest])
    assert result.exit_code == 2
    assert "--pip" in result.output
    assert calls() == []


@pytest.mark.parametrize("name", ["gone-1.0-py3-none-any.whl", "mine.whl", "directory"])
def test_a_bad_wheel_is_refused_before_anything_is_done(mmdebstrap, tmp_path, monkeypatch, name):
    calls = mmdebstrap(FAILS)
    monkeypatch.chdir(tmp_path)
    Path("mine.whl").touch()
    Path("directory").mkdir()
    result = CliRunner().invoke(main, ["run", "--wheel", name, "true"])
    assert result.exit_code == 2
    assert "--wheel" in result.output
    assert calls() == []
