"""The compiled device: mypyc takes all of its modules, and the result runs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from emu.compiled.loading import NEVER, SETTING
from emu.compiled.sources import DEVICE
from emu.version import COMPILED

ROOT = Path(__file__).parents[2]

TRANSLATE = """
from emu.compiled.sources import DEVICE
from emu.compiled.translate import extensions
print(len(extensions(DEVICE.paths(), DEVICE.group)))
"""

TRAFFIC = """
from emu.driver.nodes.two_nodes import two_nodes
from emu.driver.verbs.connect import connect
from emu.device.models import MODELS
from emu.driver.world.clock import HandClock
from emu.server.net.ib.local import LocalFabric
from emu.version import code

clock = HandClock()
left, right = two_nodes(MODELS["connectx6"], clock, LocalFabric(clock))
qp, peer = left.queue_pair(), right.queue_pair()
connect(qp, peer)
source, target = left.region(4096), right.region(4096)
qp.write((target.key, target.va), source.sge(0, 64))
qp.node.settle()
print(code(), [entry.syndrome for entry in qp.cq.drain()])
"""


def test_the_compiler_takes_every_module(tmp_path):
    """Half a minute for its translation to C; that is not compiled here."""
    pytest.importorskip("mypyc", reason="comes with mypy, as scripts/setup dev installs it")
    for name in DEVICE.files():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(DEVICE.root / name, tmp_path / name)
    environ = {**os.environ, SETTING: NEVER, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-P", "-c", TRANSLATE],
        cwd=tmp_path, env=environ, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert int(done.stdout.splitlines()[-1]) == len(DEVICE.paths()) + 1


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_the_compiled_device_runs(tmp_path):
    """Some minutes for the build; then its first messages, and tests of the device."""
    pytest.importorskip("mypyc", reason="comes with mypy, as scripts/setup dev installs it")
    environ = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
    environ.pop(SETTING)

    def output(*words, **changed):
        done = subprocess.run(
            [sys.executable, *words], cwd=ROOT, env={**environ, **changed}, text=True,
            stdout=subprocess.PIPE, check=True,
        )  # fmt: skip
        return done.stdout

    form = f"{COMPILED} ({DEVICE.key()})"
    made = output("-m", "emu", "doctor", "--compile")
    assert made == f"device code: {form}, used from now on\n"
    assert output("-m", "emu", "--version").endswith(f", {form}\n")
    assert output("-m", "emu", "--version", **{SETTING: "0"}).endswith(", pure Python\n")
    assert output("-c", TRAFFIC, **{SETTING: "1"}) == f"{COMPILED} [0]\n"
    assert output("-c", TRAFFIC) == "pure [0]\n"
    tests = ("tests/device/rc", "tests/device/eth/queues", "tests/transport/loop")
    told = output("-m", "pytest", "-q", "-p", "no:cacheprovider", *tests, **{SETTING: "1"})
    assert " passed" in told


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_a_compiled_wheel_runs(tmp_path):
    """As cibuildwheel makes it (pyproject.toml), with the tools of this environment."""
    pytest.importorskip("mypyc", reason="comes with mypy, as scripts/setup dev installs it")
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["cibuildwheel"]
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file() and not name.startswith("tests/"):
            (tmp_path / "src" / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, tmp_path / "src" / name)
    environ = {**os.environ, **settings["environment"]}
    subprocess.run(
        [
            sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation",
            "-w", tmp_path, tmp_path / "src",
        ],
        env=environ, check=True,
    )  # fmt: skip
    (path,) = tmp_path.glob("*.whl")
    assert "linux" in path.name
    with zipfile.ZipFile(path) as archive:
        archive.extractall(tmp_path / "site")
    environ = {**os.environ, "PYTHONPATH": str(tmp_path / "site")}
    environ["XDG_CACHE_HOME"] = str(tmp_path / "none")

    def sent(**changed):
        return subprocess.run(
            [sys.executable, "-P", "-c", TRAFFIC], cwd=tmp_path, env={**environ, **changed},
            capture_output=True, text=True, check=True,
        ).stdout  # fmt: skip

    environ.pop(SETTING)
    assert sent() == f"{COMPILED} [0]\n"
    assert sent(**{SETTING: "0"}) == "pure [0]\n"
    assert not (tmp_path / "none").exists()
