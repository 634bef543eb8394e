"""Images with extra packages: made of another image, whole or not at all. No mmdebstrap runs."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from emu.cli.main import main
from emu.guests import cache
from emu.guests.errors import LabError
from emu.guests.image import image
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
    [("guest", "build"), ("run", "true"), ("boot",), ("suite",)],
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
