"""Stack traces with source lines, from binaries that the test compiles."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest

from emu.guests import LabError
from emu.guests.kernel.stack_trace import StackTraceDecoder, _functions

pytestmark = pytest.mark.skipif(
    not (shutil.which("gcc") and shutil.which("addr2line")), reason="no gcc or no addr2line"
)

SOURCE = """
int other(int x);

int first(int x)
{
	x = other(x);
	return x + 1;
}

static __attribute__((noinline, section(".text.second"))) int second(int x)
{
	x = other(x + 2);
	return x + 3;
}

int main(int count, char **words)
{
	return first(count) + second(count);
}
"""
OTHER = "int other(int x) { return x * 2; }"


@pytest.fixture
def tree(tmp_path):
    """A build tree: vmlinux is a program, a module an object with a section for each function."""
    (tmp_path / "one.c").write_text(SOURCE)
    (tmp_path / "two.c").write_text(OTHER)
    (tmp_path / "drivers").mkdir()

    def gcc(*words):
        subprocess.run(["gcc", "-g", "-O1", *words], cwd=tmp_path, check=True)

    gcc("-o", "vmlinux", "one.c", "two.c")
    gcc("-c", "-o", "drivers/mlx5-core.ko", "one.c")
    return tmp_path


def frame(path, name, offset, module=""):
    """How the kernel prints the place ``offset`` bytes into a function."""
    (length,) = (length for symbol, length in _functions(path) if symbol == name)
    return f"{name}+{offset:#x}/{length:#x}{module and f' [{module}]'}"


def length_of(path, name):
    return next(length for symbol, length in _functions(path) if symbol == name)


@pytest.mark.parametrize("module", ["", "mlx5_core", "mlx5_core 1a2b3c"])
def test_a_frame_gets_its_line(tree, module):
    path = tree / "drivers/mlx5-core.ko" if module else tree / "vmlinux"
    for name, lines in (("first", range(5, 9)), ("second", range(11, 15))):
        place = frame(path, name, length_of(path, name) - 1, module)
        text = f"[    1.0]  ? {place}\nnothing here"
        first, second = StackTraceDecoder(tree).decode(text).splitlines()
        assert second == "nothing here"
        assert first.startswith(f"[    1.0]  ? {place} (")
        assert int(first.rstrip(")").rpartition(":")[2]) in lines, first
        assert "one.c:" in first


def test_what_is_not_known_stays_as_it_is(tree):
    text = "no_such+0x1/0x2\nfirst+0x1/0x99999\nfirst+0x1/0x2 [no_module]\nfirst+0x/0x"
    assert StackTraceDecoder(tree).decode(text) == text


def test_a_tree_without_vmlinux(tmp_path):
    with pytest.raises(LabError, match=r"no vmlinux in .*: stack traces need a"):
        StackTraceDecoder(tmp_path)


@pytest.mark.hostile
def test_a_binary_that_is_none(tree):
    (tree / "vmlinux").write_bytes(os.urandom(200))
    with pytest.raises(LabError, match="cannot read the symbols"):
        StackTraceDecoder(tree).decode("first+0x1/0x2")
