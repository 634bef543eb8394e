"""Coverage by block: where basic blocks begin, and which of them QEMU's blocks hold."""

import shutil
import subprocess

import pytest
from click.testing import CliRunner

from emu.cli.main import main
from emu.guests import LabError
from emu.instruments.coverage import blocks, data
from emu.instruments.coverage.data import Blocks, Coverage, CoveredKernel, CoveredModule

LISTING = """
core.ko:     file format elf64-x86-64

Disassembly of section .text:

0000000000000000 <__pfx_probe>:
   0:\tnop
   1:\tnop

0000000000000010 <probe>:
  10:\tendbr64
  14:\ttest   %edi,%edi
  16:\tje     20 <probe+0x10>
  18:\tcall   1d <probe+0xd>
  1d:\tlea    0x8(%rax),%rsi
  20:\tbnd jmp 1000 <other>
  25:\tdata16 cs nopw 0x0(%rax,%rax,1)
  2f:\tnop

0000000000000030 <remove>:
  30:\tmov    %rsp,%rbp
  33:\tjmp    *%rax
  35:\tint3
  36:\trep stos %al,%es:(%rdi)
  38:\tret
  39:\txchg   %ax,%ax
"""


def test_blocks_begin_where_control_may_come_from_elsewhere():
    found = blocks.leaders_of(LISTING.splitlines())
    assert [hex(one) for one in found] == ["0x10", "0x18", "0x1d", "0x20", "0x30"]


@pytest.mark.parametrize(
    ("executed", "begins"),
    [
        ([], []),
        ([(0x1010, 8)], [0x10]),
        ([(0x1010, 9)], [0x10, 0x18]),
        ([(0x1011, 7)], []),
        ([(0x1030, 1), (0x1010, 0x11)], [0x10, 0x18, 0x1D, 0x20, 0x30]),
        ([(0x1010, 16), (0x1014, 16), (0x1018, 1)], [0x10, 0x18, 0x1D, 0x20]),
        ([(0x10, 9), (1 << 63, 9)], []),
    ],
)
def test_blocks_of_qemu_hold_basic_blocks(executed, begins):
    known = blocks.leaders_of(LISTING.splitlines())
    assert list(blocks.ran(known, executed, 0x1000)) == begins


def test_runs_are_put_together(tmp_path):
    def run(*ran):
        module = CoveredModule(directory="d", functions=[], blocks=Blocks(total=9, ran=list(ran)))
        kernel = CoveredKernel(runs=1, missed=0, modules={"core": module})
        return Coverage(mlx5emu_coverage=1, kernels={"6.12": kernel})

    for number, part in enumerate([run(1, 5), run(1, 7)]):
        data.save(tmp_path / str(number), part)
    shown = CliRunner().invoke(main, ["coverage", "show", str(tmp_path / "0"), str(tmp_path / "1")])
    assert "3 of 9, 33.3 %" in shown.output


def test_a_file_of_the_plugin_is_read():
    shared = blocks.BlockMap((0x1000, 0x2000), capacity=4)
    try:
        assert shared.executed() == []
        with shared.path.open("r+b") as file:
            header = blocks._HEADER.pack(blocks._MAGIC, 0x1000, 0x2000, 4, 3, 2)
            file.write(header)
            for number in (0x1010, 0x1800, 0x1000, 0):
                file.write(number.to_bytes(8, "little"))
            for number in (9, 8, 7, 0):
                file.write(number.to_bytes(4, "little"))
            file.write(bytes([1, 0, 1, 1]))
        assert shared.executed() == [(0x1000, 7), (0x1010, 9)]
        assert shared.lost == 2
        shared.clear()
        assert shared.executed() == []
    finally:
        shared.close()
    assert not shared.path.exists()


def test_what_is_missing_is_said(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(shutil, "which", lambda _name: None)
    with pytest.raises(LabError, match="a C compiler and objdump: install"):
        blocks.plugin()


def test_a_module_without_objdump_is_said(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(LabError, match="needs objdump: install the package binutils"):
        blocks.leaders(tmp_path / "mlx5_core.ko")


@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")
def test_the_plugin_compiles_once_and_without_a_warning(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(blocks, "_COMPILER_FLAGS", (*blocks._COMPILER_FLAGS, "-Wextra", "-Werror"))
    made = blocks.plugin()
    told = subprocess.run(["nm", "-D", made], capture_output=True, text=True, check=True).stdout
    assert " T qemu_plugin_install\n" in told
    changed = made.stat().st_mtime_ns
    assert blocks.plugin().stat().st_mtime_ns == changed


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--coverage-blocks"], "needs --coverage"),
        (["--coverage", "mlx5_core", "--no-probe"], "drop --no-probe"),
        (["--coverage", "mlx5_core", "--coverage-blocks", "--accel", "kvm"], "drop --accel kvm"),
        (["--coverage", "mlx5_core,../x"], "names of kernel modules"),
        (["--coverage", ",".join(f"m{n}" for n in range(33))], "names of kernel modules"),
    ],
)
def test_options_that_do_not_go_together(words, why):
    result = CliRunner().invoke(main, ["run", *words, "--", "true"])
    assert result.exit_code == 2
    assert why in result.output
