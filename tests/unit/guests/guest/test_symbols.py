"""What gdb is told of a guest's modules."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emu.guests.guest.symbols import commands, parse

ANSWER = """\
module mlx5_core /lib/modules/6.12/kernel/drivers/net/mlx5_core.ko
mlx5_core/sections/.data:0xffffffffc0200000
mlx5_core/sections/.init.text:0xffffffffc0300000
mlx5_core/sections/.text:0xffffffffc0100000
module hidden /lib/modules/6.12/hidden.ko
hidden/sections/.text:0x0000000000000000
"""


def test_symbols_are_added_where_the_modules_are():
    modules = parse(ANSWER)
    assert [module.name for module in modules] == ["mlx5_core"]
    files = {"mlx5_core": Path("/k/mlx5_core.ko")}
    lines = commands(Path("/w/gdb"), Path("/k/vmlinux"), modules, files).splitlines()
    assert "add-symbol-file /k/mlx5_core.ko 0xffffffffc0100000 -s .data 0xffffffffc0200000" in lines
    assert lines.index("file /k/vmlinux") < lines.index("target remote /w/gdb")


@pytest.mark.hostile
@given(st.text(max_size=300))
def test_a_guest_gives_gdb_no_commands(text):
    """A debugger runs what stands in its file: nothing of the guest's gets there as it is."""
    answer = f"{ANSWER}{text}\nmodule m /x y\nmodule n /x\n!touch.ko\nm/sections/.a;b:0x1\n"
    made = commands(Path("/w/gdb"), None, modules := parse(answer), dict.fromkeys(
        (module.name for module in modules), Path("/k/file.ko")))  # fmt: skip
    known = ("set confirm o", "set architecture ", "add-symbol-file ", "target remote /w/gdb")
    assert all(line.startswith(known) for line in made.splitlines())
    assert not set(made) & set(";!|`$\x1b")
