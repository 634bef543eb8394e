"""The cache directory: whole builds or none, locks, logs that do not pile up."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import stat
import threading

import pytest
from click.testing import CliRunner

from emu.cli.main import main
from emu.guests import cache
from emu.guests.errors import LabError

NO_PID = 2**22 + 1
"""One more than Linux ever gives."""


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path


def test_the_directory_follows_the_specification(home, monkeypatch):
    assert cache.cache_dir() == home / "mlx5emu"
    monkeypatch.setenv("HOME", str(home / "me"))
    for value in ("", "relative"):
        monkeypatch.setenv("XDG_CACHE_HOME", value)
        assert cache.cache_dir() == home / "me" / ".cache" / "mlx5emu"


def test_a_directory_that_cannot_be_made_is_said(home, monkeypatch):
    (home / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(home / "file"))
    with pytest.raises(LabError, match="cannot make the cache directory"):
        cache.cache_dir()


def test_a_build_replaces_the_old_one_at_once():
    target = cache.subdir("images") / "x"
    with cache.building(target) as work:
        (work / "file").write_text("old")
        assert not target.exists()
    with cache.building(target) as work:
        (work / "file").write_text("new")
        assert (target / "file").read_text() == "old"
    assert (target / "file").read_text() == "new"


def test_a_build_that_fails_leaves_nothing():
    images = cache.subdir("images")
    with contextlib.suppress(ZeroDivisionError), cache.building(images / "x") as work:
        (work / "file").touch()
        raise ZeroDivisionError
    assert list(images.iterdir()) == []


@pytest.mark.parametrize(
    "use",
    [cache.new_run_dir, lambda: _built(cache.subdir("kernels") / "y"), cache.sweep],
    ids=["a guest's start", "another build", "cleaning"],
)
def test_what_a_killed_build_left_is_swept(use):
    """Whatever it was for, and at the next use; a build that goes on keeps its directory."""
    images, compiled = cache.subdir("images"), cache.subdir("compiled")
    for folder in (images, compiled):
        (folder / left()).mkdir()
        (folder / left() / "file").write_bytes(bytes(1 << 20))
    link = left("link")
    (images / link).symlink_to(compiled)
    with cache.building(images / "other") as work:
        use()
        assert {path.name for path in images.iterdir()} == {link, work.name}
        assert not list(compiled.iterdir())
    assert (images / "other").is_dir()


def left(name="x"):
    """Return the name of a directory that a killed build of this host has left."""
    return f".{name}.{cache._host()}.abcd_123"


@pytest.mark.parametrize("name", [".git", ".x.snapshot", ".x.another-host.abcd_123", ".x.abcd_123"])
def test_a_directory_of_a_user_or_another_host_is_not_swept(name):
    """Hosts may share a home; the lock of a directory is seen on its own host only."""
    (cache.subdir("images") / name).mkdir()
    assert cache.sweep() == {}
    assert (cache.subdir("images") / name).is_dir()


@pytest.mark.parametrize(
    ("name", "stays"),
    [(".x.another-host.abcd_123", False), (".x.abcd_123", False), (".x.y.host.abcd_123", True)],
)
def test_the_next_build_removes_what_was_left_for_its_target(name, stays):
    """Also by another host, or by an older version; the caller holds the target's lock."""
    images = cache.subdir("images")
    (images / name).mkdir()
    _built(images / "x")
    assert (images / name).exists() == stays


def _built(target):
    with cache.building(target):
        pass


def test_a_directory_swept_before_it_is_locked_is_made_again(monkeypatch):
    """Another process may look between the two; the build does not work in a removed directory."""
    images, locked, swept = cache.subdir("images"), fcntl.flock, []

    def flock(held, how):
        if not swept and how == fcntl.LOCK_EX:
            (path,) = images.glob(".x.*")
            swept.append(path)
            path.rmdir()
        locked(held, how)

    monkeypatch.setattr(fcntl, "flock", flock)
    with cache.building(images / "x") as work:
        assert work.exists()
        assert work not in swept


def test_swept_directories_are_told_with_their_size():
    made = cache.subdir("compiled") / left("0123")
    made.mkdir()
    (made / "library").write_bytes(bytes(3 << 20))
    result = CliRunner().invoke(main, ["guest", "clean"])
    assert f"compiled/{made.name}: 3.1 MB of an interrupted build\n" in result.output
    assert not made.exists()


def test_a_lock_is_waited_for():
    """By whoever opens its file another time, here as in another process."""
    held, release = threading.Event(), threading.Event()

    def hold():
        with cache.lock("x"):
            held.set()
            release.wait(30)

    other = threading.Thread(target=hold)
    other.start()
    assert held.wait(30)
    waits = []
    with cache.lock("y", lambda: waits.append("y")):
        pass
    with cache.lock("x", lambda: (waits.append("x"), release.set())):
        assert waits == ["x"]
    other.join(30)


def test_only_some_runs_are_kept():
    """Of those whose process has ended: a guest that runs needs its logs, however old they are."""
    runs = cache.subdir("runs")
    ended = [runs / f"run-{NO_PID}-{number}" for number in range(cache.KEPT_RUNS + 3)]
    running = runs / f"run-{os.getppid()}-0"
    for number, path in enumerate([running, *ended]):
        path.mkdir()
        os.utime(path, (number, number))
    made = [cache.new_run_dir(), cache.new_run_dir()]
    assert {*runs.iterdir()} == {running, *ended[4:], *made}


def test_small_answers(home):
    path = home / "answers.json"
    assert cache.load_json(path) == {}
    cache.save_json(path, {"a": 1})
    assert cache.load_json(path) == {"a": 1}
    for damaged in ("", "{", "[1]"):
        path.write_text(damaged)
        assert cache.load_json(path) == {}


def test_disk_usage_counts_blocks(home):
    sparse = home / "sparse"
    with sparse.open("wb") as file:
        file.truncate(1 << 30)
    assert cache.disk_usage(sparse) < 1 << 20
    (home / "d").mkdir()
    (home / "d" / "file").write_bytes(bytes(10_000))
    assert 10_000 <= cache.disk_usage(home / "d") < 100_000
    assert cache.disk_usage(home / "none") == 0


@pytest.mark.hostile
def test_disk_usage_leaves_out_what_goes_meanwhile(home, monkeypatch):
    """As logs of old runs do, when another process begins a new one."""
    stays, goes = home / "d" / "stays", home / "d" / "goes"
    for place in (stays, goes):
        place.mkdir(parents=True)
        (place / "log").write_bytes(bytes(10_000))
    usage = cache.disk_usage(home / "d")
    lstat = os.lstat

    def later(path, **where):
        if os.lstat is later:
            monkeypatch.undo()
            shutil.rmtree(goes)
        return lstat(path, **where)

    monkeypatch.setattr(os, "lstat", later)
    assert 10_000 <= cache.disk_usage(home / "d") < usage


def test_a_lock_is_no_symbolic_link(home):
    """In a directory that others may write to, it would lead to a file of ours."""
    (home / "precious").write_text("precious")
    (cache.subdir("locks") / "runs").symlink_to(home / "precious")
    with pytest.raises(OSError, match="symbolic links"), cache.lock("runs"):
        pytest.fail("it was followed")
    assert (home / "precious").read_text() == "precious"


@pytest.mark.hostile
@pytest.mark.parametrize("mode", [0o777, 0o757, 0o775, 0o2775])
def test_a_cache_that_others_may_fill_is_refused(mode):
    """Kernels and programs from there are run."""
    cache.cache_dir().chmod(mode)
    with pytest.raises(LabError, match=r"others may write.*chmod -R go-w"):
        cache.cache_dir()


@pytest.mark.hostile
def test_a_part_of_the_cache_that_others_may_fill_is_refused():
    cache.subdir("images").chmod(0o775)
    cache.subdir("runs")
    with pytest.raises(LabError, match="others may write"):
        cache.subdir("images")


def test_what_is_made_there_is_not_for_a_group(home):
    """Whatever the umask; some distributions' lets the user's own group write."""
    before = os.umask(0o002)
    try:
        made = cache.subdir("images")
    finally:
        os.umask(before)
    assert stat.S_IMODE(made.stat().st_mode) == 0o755
    assert stat.S_IMODE(cache.cache_dir().stat().st_mode) == 0o755


@pytest.mark.hostile
@pytest.mark.parametrize(
    ("uid", "owner", "good"),
    [(1000, 1000, True), (1000, 0, True), (0, 1000, True), (1000, 1001, False)],
)
def test_whose_a_cache_may_be(home, monkeypatch, uid, owner, good):
    about = os.stat_result((0o40755, 0, 0, 2, owner, 0, 0, 0, 0, 0))
    monkeypatch.setattr(os, "getuid", lambda: uid)
    monkeypatch.setattr("pathlib.Path.stat", lambda *_, **__: about)
    with contextlib.nullcontext() if good else pytest.raises(LabError):
        cache._trusted(home)
