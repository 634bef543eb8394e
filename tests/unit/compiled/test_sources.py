"""What is compiled, and the hash by which the cache knows it."""

from __future__ import annotations

import ast
from dataclasses import replace

import pytest
from helpers.files.tiny_sources import tiny_sources

from emu.compiled.sources import DEVICE


@pytest.fixture
def tiny(tmp_path):
    return tiny_sources(tmp_path)


def test_modules_of_the_packages_but_those_left_out(tiny):
    assert tiny.paths() == ["tiny/sub/__init__.py", "tiny/sub/add.py"]
    names = ("tiny", "tiny.plain", "tiny.sub", "tiny.sub.add", "tiny.sub.left_out", "tiny.subway")
    assert list(filter(tiny.is_compiled, names)) == ["tiny.sub", "tiny.sub.add"]
    assert tiny.source("tiny.sub") == tiny.root / "tiny/sub/__init__.py"
    assert tiny.source("tiny.sub.add") == tiny.root / "tiny/sub/add.py"


def test_the_hash_follows_what_the_compiler_reads(tiny):
    known = tiny.key()
    (tiny.root / "notes.txt").write_text("x")
    (tiny.root / "tiny" / "notes.txt").write_text("x")
    assert tiny.key() == known
    for name in ("plain.py", "sub/add.py", "sub/left_out.py", "more.pyi"):
        path = tiny.root / "tiny" / name
        before = path.read_bytes() if path.exists() else b""
        path.write_bytes(before + b"#")
        assert tiny.key() != known, name
        path.write_bytes(before)
    (tiny.root / "tiny" / "more.pyi").unlink()
    assert tiny.key() == known


def test_bytes_that_move_between_files_change_the_hash(tiny):
    known = tiny.key()
    add, other = (tiny.root / "tiny" / "sub" / name for name in ("add.py", "left_out.py"))
    texts = add.read_bytes(), other.read_bytes()
    add.write_bytes(b"".join(texts))
    other.write_bytes(b"")
    assert tiny.key() != known


def test_another_python_has_another_hash(tiny, monkeypatch):
    known = tiny.key()
    monkeypatch.setattr("emu.compiled.sources.EXTENSION_SUFFIXES", [".other.so"])
    assert tiny.key() != known


def test_the_last_change(tiny):
    import os

    assert tiny.changed() > 0
    os.utime(tiny.root / "tiny" / "plain.py", (9e9, 9e9))
    assert tiny.changed() == 9e9


def imported(path):
    """The modules that a source imports, by all names that they may have."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def test_the_device_is_read_with_all_that_it_imports():
    """Else a change of a type or a constant elsewhere would leave old code in use."""
    waiting, seen = {DEVICE.root / name for name in DEVICE.paths()}, set()
    while waiting:
        path = waiting.pop()
        seen.add(path)
        found = {DEVICE.source(name) for name in imported(path)}
        waiting |= {path for path in found if path.exists()} - seen
    read = {DEVICE.root / name for name in DEVICE.files()}
    assert not seen - read
    assert len(seen) > 300
    assert replace(DEVICE, read=()).key() != DEVICE.key()
