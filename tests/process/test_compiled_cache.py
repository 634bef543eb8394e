"""The cache of compiled code in processes: what a small package runs, and what a server does."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from helpers.files.tiny_sources import tiny_sources

from emu.compiled.loading import FOLDER, SETTING

ROOT = Path(__file__).parents[2]

USE = """
import sys
from pathlib import Path
from helpers.files.tiny_sources import tiny_sources_of
from emu.compiled import building, loading

tiny = tiny_sources_of(Path(sys.argv[1]))
if "build" in sys.argv:
    building.build(tiny)
loading.install(tiny)
sys.path.insert(0, str(tiny.root))
import tiny.sub.left_out
from tiny.sub import NAMES, add

try:
    form = add.add("x")
except TypeError as error:
    form = "compiled" if "got str" in str(error) else "pure"
is_here = tiny.sub.__path__ == [sys.argv[1] + "/tiny/sub"]
print(form, add.add(4), tiny.sub.left_out.FOUR, NAMES, is_here)
"""
RIGHT = "7 4 ['add', 'left_out'] True"

STUB = """
def mypycify(*words, **options):
    raise SystemExit("the compiler is out of order")
"""
SERVE = """
import sys
from emu.compiled import building
building._EDITED = 0.0  # somebody may have just edited the sources
building.missing = lambda: ""
from emu.cli.main import main
main()
"""


@pytest.fixture
def environ(tmp_path):
    """The environment of a user with the small package and an empty cache."""
    tiny_sources(tmp_path / "site")
    return {
        **{name: value for name, value in os.environ.items() if name not in (SETTING, "CC")},
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
        "PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "tests"))),
    }


def use(environ, tmp_path, *words, **changed):
    command = [sys.executable, "-c", USE, tmp_path / "site", *words]
    return subprocess.Popen(
        command, env={**environ, **changed}, cwd="/", text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


def said(process):
    out, err = process.communicate()
    return out.strip() or err.splitlines()[-1]


def test_compiled_code_is_used_until_it_is_damaged(environ, tmp_path):
    pytest.importorskip("mypyc", reason="comes with mypy, as scripts/setup dev installs it")
    assert said(use(environ, tmp_path)) == f"pure {RIGHT}"
    # Both ask for it at the same time: one builds, the other waits for it.
    builders = [use(environ, tmp_path, "build") for _ in range(2)]
    assert [said(each) for each in builders] == [f"compiled {RIGHT}"] * 2
    assert said(use(environ, tmp_path)) == f"compiled {RIGHT}"
    assert said(use(environ, tmp_path, **{SETTING: "0"})) == f"pure {RIGHT}"
    (library,) = (tmp_path / "cache" / "mlx5emu" / FOLDER).glob("*/*.so")
    content = library.read_bytes()
    library.write_bytes(content[: len(content) // 2])
    assert said(use(environ, tmp_path)) == f"pure {RIGHT}"


def test_a_compiler_that_fails_is_one_line(environ, tmp_path):
    pytest.importorskip("mypyc", reason="comes with mypy, as scripts/setup dev installs it")
    (tmp_path / "cc").write_text("#!/bin/sh\necho 'cc: out of order' >&2\nexit 1\n")
    (tmp_path / "cc").chmod(0o755)
    told = said(use(environ, tmp_path, "build", CC=str(tmp_path / "cc")))
    assert "no compiled code: " in told
    assert f"log: {tmp_path}/cache/mlx5emu/build-compiled.log" in told
    assert said(use(environ, tmp_path)) == f"pure {RIGHT}"
    assert not list((tmp_path / "cache" / "mlx5emu" / FOLDER).glob(".*"))


def test_a_server_begins_a_build_and_serves_in_pure_python(environ, tmp_path):
    """The build, here by a compiler that fails, leaves its line where doctor reads it."""
    (tmp_path / "stubs" / "mypyc").mkdir(parents=True)
    (tmp_path / "stubs" / "mypyc" / "__init__.py").touch()
    (tmp_path / "stubs" / "mypyc" / "build.py").write_text(STUB)
    # On a busy machine a process of the lowest priority would take minutes.
    (tmp_path / "stubs" / "sitecustomize.py").write_text(
        "import os\nos.sched_setscheduler = lambda *_: None\n"
    )
    for name, skipped in (("nice", 2), ("setsid", 0)):
        (tmp_path / "stubs" / name).write_text(f'#!/bin/sh\nshift {skipped}\nexec "$@"\n')
        (tmp_path / "stubs" / name).chmod(0o755)
    environ["PATH"] = os.pathsep.join((str(tmp_path / "stubs"), environ["PATH"]))
    environ["PYTHONPATH"] = os.pathsep.join((str(tmp_path / "stubs"), environ["PYTHONPATH"]))
    words = ["serve", "--socket", str(tmp_path / "socket")]

    def served():
        """What the server says until it is ready, and is then ended."""
        with subprocess.Popen(
            [sys.executable, "-c", SERVE, *words], env=environ, cwd="/", text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        ) as server:  # fmt: skip
            while (line := server.stdout.readline()) != "ready\n":
                assert line, server.stderr.read()
            server.terminate()
            return server.stderr.read().splitlines()

    lines = served()
    assert lines[:2] == [
        "device code: pure Python",
        "compiling the device code in the background, for later runs",
    ]
    folder = tmp_path / "cache" / "mlx5emu" / FOLDER
    lock = folder.parent / "locks" / "compiled"
    while not list(folder.glob("*.failed")):  # the test's timeout bounds this
        subprocess.run(["flock", "--wait", "1", lock, "true"], check=False)
    assert "the compiler is out of order" in next(folder.glob("*.failed")).read_text()
    assert served()[:2] == ["device code: pure Python"]
    doctor = subprocess.run(
        [sys.executable, "-m", "emu", "doctor"], env={**environ, "COLUMNS": "300"}, cwd="/",
        text=True, capture_output=True, check=False,
    )  # fmt: skip
    (line,) = [line for line in doctor.stdout.splitlines() if "device's code" in line]
    assert "pure Python; the last build failed: the compiler is out of order" in line
