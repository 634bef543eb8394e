"""The cache of compiled code, with a compiler that only writes a file."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import threading
import time
from pathlib import Path

import pytest
from helpers.files.tiny_sources import tiny_sources

from emu.compiled import building
from emu.compiled.loading import SETTING, entry
from emu.compiled.sources import BUILT
from emu.guests import cache
from emu.host.user_error import UserError


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv(SETTING, raising=False)
    monkeypatch.setattr(building, "missing", lambda: "")
    return tmp_path / "cache" / "mlx5emu"


@pytest.fixture
def tiny(tmp_path):
    return tiny_sources(tmp_path / "site")


@pytest.fixture
def runs(monkeypatch):
    """The folders in which the compiler has run."""
    found = []

    def run(module, work, *words):
        found.append(work)
        (work / BUILT).mkdir()
        (work / BUILT / "tiny_compiled__mypyc.so").write_bytes(b"library" * 1000)

    monkeypatch.setattr(building, "_run", run)
    return found


def failing(monkeypatch, error):
    def run(module, work, *words):
        (work / "half").write_bytes(b"half")
        raise error

    monkeypatch.setattr(building, "_run", run)


def contents(home):
    return sorted(path.name for path in (home / "compiled").iterdir())


def test_an_entry_has_the_library_alone_and_is_made_once(tiny, runs, home):
    key = building.build(tiny)
    path = entry(key)
    assert path.read_bytes() == b"library" * 1000
    assert list(path.parent.iterdir()) == [path]
    assert building.build(tiny) == key == tiny.key()
    assert len(runs) == 1
    assert contents(home) == [key]


def test_a_change_of_a_source_needs_another_entry(tiny, runs):
    old = building.build(tiny)
    (tiny.root / "tiny" / "plain.py").write_text("VALUE = 4\n")
    assert entry(tiny.key()) is None
    new = building.build(tiny)
    assert new != old
    assert entry(old) != entry(new)


def test_a_change_during_the_copy_is_not_compiled(tiny, runs, monkeypatch):
    copied = building._copied

    def changed(sources, folder):
        (tiny.root / "tiny" / "plain.py").write_text("VALUE = 4\n")
        return copied(sources, folder)

    monkeypatch.setattr(building, "_copied", changed)
    with pytest.raises(UserError, match="a source changed meanwhile"):
        building.build(tiny)
    assert not runs


@pytest.mark.hostile
@pytest.mark.parametrize("damage", ["flip", "cut", "empty", "grow", "name", "folder"])
def test_a_damaged_entry_is_not_used_and_is_built_again(tiny, runs, damage):
    key = building.build(tiny)
    path = entry(key)
    content = path.read_bytes()
    if damage == "folder":
        path.unlink()
        path.mkdir()
    elif damage == "name":
        path.rename(path.with_name("library.so"))
    else:
        changed = {"flip": b"L" + content[1:], "cut": content[:-1], "empty": b"", "grow": b"x"}
        path.write_bytes(changed[damage] + content * (damage == "grow"))
    assert entry(key) is None
    assert building.build(tiny) == key
    assert entry(key).read_bytes() == content


@pytest.mark.hostile
@pytest.mark.parametrize("level", range(4))
def test_an_entry_that_others_could_have_written_is_not_used(tiny, runs, level):
    path = entry(building.build(tiny))
    place = [path, *path.parents][level]
    place.chmod(place.stat().st_mode | 0o022)
    assert entry(tiny.key()) is None
    place.chmod(place.stat().st_mode & ~0o022)
    assert entry(tiny.key()) is not None


def test_an_entry_of_a_cache_that_cannot_be_written_is_used(tiny, runs, monkeypatch):
    key = building.build(tiny)

    def utime(path):
        raise OSError(errno.EROFS, "Read-only file system", str(path))

    monkeypatch.setattr(os, "utime", utime)
    assert entry(key) is not None


def test_without_a_home_directory_nothing_is_found(tiny, monkeypatch):
    def home():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(Path, "home", home)
    assert entry(tiny.key()) is None


def test_what_a_killed_build_left_is_removed(tiny, runs, home):
    """By this or another host, or an older version: all builds have one lock."""
    left = home / "compiled" / ".0123456789ab.killed" / "work"
    cache.subdir("compiled")
    left.mkdir(parents=True)
    key = building.build(tiny)
    assert contents(home) == [key]


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (UserError("gcc: error (log: /x)"), "no compiled code: gcc: error (log: /x)"),
        (OSError(errno.ENOSPC, "No space left on device", "/x"), "no compiled code: No space left"),
    ],
)
def test_a_failure_is_one_line_and_leaves_a_note(tiny, monkeypatch, home, error, text):
    failing(monkeypatch, error)
    with pytest.raises(UserError, match="no compiled code") as failed:
        building.build(tiny)
    assert str(failed.value).startswith(text)
    assert "\n" not in str(failed.value)
    assert building.failure(tiny.key())
    assert contents(home) == [f"{tiny.key()}.failed"]
    assert entry(tiny.key()) is None


def test_a_build_that_succeeds_removes_the_note(tiny, monkeypatch, runs):
    cache.save_text(cache.subdir("compiled") / f"{tiny.key()}.failed", "before")
    assert building.failure(tiny.key()) == "before"
    building.build(tiny)
    assert building.failure(tiny.key()) == ""


def test_two_builds_at_a_time_are_one(tiny, runs):
    keys = []
    threads = [threading.Thread(target=lambda: keys.append(building.build(tiny))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert keys == [tiny.key()] * 4
    assert len(runs) == 1


def test_the_background_leaves_when_another_process_builds(tiny, runs, monkeypatch, tmp_path):
    policies = []
    monkeypatch.setattr(os, "sched_setscheduler", lambda _, policy, param: policies.append(policy))
    monkeypatch.setattr(building, "_AUTOGROUP", tmp_path / "autogroup")
    monkeypatch.setattr(os, "getsid", lambda _: os.getpid())
    monkeypatch.setattr(building.build, "__defaults__", (tiny, None))
    with cache.lock(building._LOCK):
        building.main()
    assert not runs
    building.main()
    assert len(runs) == 1
    assert policies == [os.SCHED_IDLE] * 2
    assert (tmp_path / "autogroup").read_text() == "19"


def test_a_build_keeps_the_last_used_entries(tiny, runs, home):
    keys = []
    for value in range(building.KEPT + 2):
        (tiny.root / "tiny" / "plain.py").write_text(f"VALUE = {value}\n")
        keys.append(building.build(tiny))
        os.utime(home / "compiled" / keys[-1], (value, value))
        entry(keys[0])  # is in use
    assert entry(keys[0]) is not None
    assert len(contents(home)) == building.KEPT
    assert keys[-1] in contents(home)


def test_old_entries_are_removed_but_for_the_one_in_use(tiny, runs, home):
    old = building.build(tiny)
    (tiny.root / "tiny" / "plain.py").write_text("VALUE = 4\n")
    key = building.build(tiny)
    assert building.remove(kept=0, current=key) > 0
    assert contents(home) == [key]
    assert old != key
    assert building.remove(kept=0) > 0
    assert contents(home) == []


class TestStart:
    """A build begins by itself."""

    @pytest.fixture(autouse=True)
    def begun(self, tiny, monkeypatch):
        found = []
        monkeypatch.setattr(building, "DEVICE", tiny)

        def run(words, **_):
            found.append(words)
            return subprocess.CompletedProcess(words, 0)

        monkeypatch.setattr(subprocess, "run", run)
        monkeypatch.setattr(building, "is_checkout", lambda: False)
        return found

    def test_with_the_lowest_priority_and_detached(self, begun):
        assert building.start()
        (words,) = begun
        assert words[:2] == ["sh", "-c"]
        assert words[2].startswith("nice -n 19 setsid ")
        assert words[-2:] == ["-m", "emu.compiled.building"]

    def test_not_again_after_a_failure(self, begun, tiny, monkeypatch):
        failing(monkeypatch, UserError("gcc: error"))
        with pytest.raises(UserError):
            building.build(tiny)
        assert not building.start()
        (tiny.root / "tiny" / "plain.py").write_text("VALUE = 4\n")
        assert building.start()
        assert len(begun) == 1

    def test_not_for_what_is_in_the_cache(self, begun, tiny, runs):
        building.build(tiny)
        assert not building.start()

    def test_not_where_the_user_chose_pure_python(self, begun, monkeypatch):
        monkeypatch.setenv(SETTING, "0")
        assert not building.start()

    def test_not_without_a_compiler(self, begun, monkeypatch):
        monkeypatch.setattr(building, "missing", lambda: "no compiler")
        assert not building.start()

    def test_not_on_a_full_disk(self, begun, monkeypatch):
        usage = shutil.disk_usage("/")
        monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=10_000))
        assert not building.start()

    def test_not_without_a_cache(self, begun, tmp_path, monkeypatch):
        (tmp_path / "file").touch()
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
        assert not building.start()
        monkeypatch.setattr(cache, "subdir", lambda _: Path("~nobody-here").expanduser())
        assert not building.start()
        assert not begun

    def test_not_while_somebody_edits_a_clone(self, begun, tiny, monkeypatch):
        monkeypatch.setattr(building, "is_checkout", lambda: True)
        assert not building.start()
        monkeypatch.setattr(time, "time", lambda: tiny.changed() + 601)
        assert building.start()
