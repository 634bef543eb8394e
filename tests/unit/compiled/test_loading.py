"""Finding the compiled form of modules, where there is none to find."""

from __future__ import annotations

import hashlib
import sys
from importlib.machinery import EXTENSION_SUFFIXES

import pytest
from helpers.files.tiny_sources import tiny_sources

from emu.compiled import loading
from emu.compiled.loading import SETTING
from emu.guests import cache


@pytest.fixture
def tiny(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    monkeypatch.delenv(SETTING, raising=False)
    return tiny_sources(tmp_path / "site")


def test_without_an_entry_python_finds_the_sources(tiny):
    loading.install(tiny)
    finder = sys.meta_path[0]
    assert finder.find_spec("tiny.sub.add", None) is None
    assert not (tiny.root.parent / "cache").exists()


def test_nothing_is_read_for_other_modules(tiny, monkeypatch):
    loading.install(tiny)
    monkeypatch.setattr(loading, "entry", None)
    for name in ("json", "tiny", "tiny.plain", "tiny.sub.left_out"):
        assert sys.meta_path[0].find_spec(name, None) is None


def test_pure_python_is_found_beside_compiled_modules_of_a_wheel(tiny, monkeypatch):
    monkeypatch.setenv(SETTING, "0")
    loading.install(tiny)
    module, package = (
        sys.meta_path[0].find_spec(name, None) for name in ("tiny.sub.add", "tiny.sub")
    )
    assert module.origin == str(tiny.root / "tiny/sub/add.py")
    assert package.submodule_search_locations == [str(tiny.root / "tiny/sub")]


def test_the_modules_of_a_compiled_wheel_are_left_to_python(tiny, monkeypatch):
    suffix = EXTENSION_SUFFIXES[0]
    (tiny.root / f"tiny_compiled__mypyc{suffix}").touch()
    monkeypatch.setattr(loading, "entry", None)
    loading.install(tiny)
    assert sys.meta_path[0].find_spec("tiny.sub.add", None) is None


@pytest.mark.hostile
def test_an_intact_file_that_is_no_library_is_reported_once(tiny, caplog):
    folder = tiny.root.parent / "cache" / "mlx5emu" / "compiled" / tiny.key()
    folder.mkdir(parents=True)
    for place in (folder, *folder.parents[:2]):
        place.chmod(0o755)
    (folder / f"{hashlib.sha256(b'no ELF').hexdigest()}.so").write_bytes(b"no ELF")
    loading.install(tiny)
    for name in ("tiny.sub.add", "tiny.sub"):
        assert sys.meta_path[0].find_spec(name, None) is None
    assert caplog.text.count("pure Python, because") == 1
    assert tiny.library not in sys.modules


def test_sources_that_cannot_be_read_are_reported(tiny, caplog):
    folder = cache.subdir("compiled") / "other"
    folder.mkdir()
    (folder / "other.so").touch()
    (tiny.root / "tiny" / "plain.py").unlink()
    (tiny.root / "tiny" / "plain.py").symlink_to("nowhere")
    loading.install(tiny)
    assert sys.meta_path[0].find_spec("tiny.sub.add", None) is None
    assert "pure Python, because" in caplog.text


def test_pure_and_compiled_modules_do_not_mix(tiny, monkeypatch):
    monkeypatch.setitem(sys.modules, "tiny.sub.add", sys)
    before = list(sys.meta_path)
    loading.install(tiny)
    assert sys.meta_path == before


def test_a_finder_is_installed_once(tiny):
    loading.install(tiny)
    loading.install(tiny)
    assert [getattr(one, "sources", None) for one in sys.meta_path].count(tiny) == 1
