"""The adapter in QEMU without a guest's kernel: a program of our own drives it, by TCG and KVM.

KVM sends an interrupt past QEMU (irqfd) unless its MSI-X entry is masked. The program needs only
instructions that KVM's instruction emulator knows, which runs all of a guest on some nested hosts.
"""

from __future__ import annotations

import contextlib
import os
import platform
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from emu.guests.machine.accel import is_accessible
from emu.host.process_identity import module_command

SOURCES = [Path(__file__).with_name(name) for name in ("start.S", "program.c")]
COMPILER = [
    *("gcc", "-m32", "-O1", "-march=i586", "-mno-sse", "-Wall", "-Wextra", "-Werror"),
    *("-ffreestanding", "-fno-pic", "-fno-stack-protector", "-static", "-nostdlib"),
    "-Wl,--build-id=none,-n,-Ttext=0x100000,-z,noexecstack",
]
SECONDS = 110
"""KVM's instruction emulator needs 30 on a busy host."""
COMMANDS = 500
"""Commands that wake a halted processor, before and after the machine's reset."""
MAX_HELD = 10
"""Interrupts raised while masked, which the local APIC gets at the unmasking, with one event."""

pytestmark = pytest.mark.skipif(platform.machine() != "x86_64", reason="not an x86-64")


@pytest.fixture(scope="module")
def image(tmp_path_factory):
    """The program, which QEMU's Multiboot loader starts."""
    if shutil.which(COMPILER[0]) is None:
        pytest.skip("no C compiler")
    path = tmp_path_factory.mktemp("program") / "program.elf"
    subprocess.run([*COMPILER, "-o", path, *SOURCES], check=True)
    return path


@contextlib.contextmanager
def served(directory):
    """Serve a function; yield QEMU's options for it."""
    words = ["--socket", directory / "function", "--device", "connectx6,pages=64"]
    words += ["--trace", directory / "trace", "--trace-format", "text"]
    command = [*module_command("emu"), "serve", *map(str, words)]
    environ = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environ, text=True) as server:
        try:
            options = []
            while (line := server.stdout.readline().strip()) != "ready":
                assert line or server.poll() is None, "the server ended"
                options += shlex.split(line)
            yield options
        finally:
            server.terminate()


def lines_with(path, word):
    return sum(word in line for line in path.read_text(errors="replace").splitlines())


NEEDS_KVM = pytest.mark.skipif(not is_accessible(), reason="no access to /dev/kvm")


@pytest.mark.parametrize(
    "accelerator",
    [
        "tcg",
        pytest.param("kvm", marks=NEEDS_KVM),
        pytest.param("kvm,kernel-irqchip=split", marks=[NEEDS_KVM, pytest.mark.slow]),
    ],
)
def test_commands_interrupts_and_resets(program, image, tmp_path, accelerator):
    with served(tmp_path) as options:
        done = subprocess.run(
            [
                *(*program.command, "-nodefaults", "-display", "none", "-serial", "stdio"),
                *("-machine", "q35,memory-backend=memory", "-m", "64M", "-cpu", "qemu64"),
                *("-object", "memory-backend-memfd,id=memory,size=64M,share=on"),
                *("-accel", accelerator, "-kernel", image),
                *("-device", "isa-debug-exit,iobase=0xf4,iosize=1"),
                *("-trace", "vfio_msi_interrupt", "-D", tmp_path / "qemu-trace"),
                *options,
            ],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, timeout=SECONDS, check=False,
        )  # fmt: skip
    said = done.stdout.decode(errors="replace").splitlines()
    assert [line for line in said if line.startswith(("FAIL", "#"))] == []
    assert "passed" in said, said[-10:]
    assert said.count("ok interrupt after the reset") == 2  # before and after the machine's reset
    raised = lines_with(tmp_path / "trace", " irq ")
    by_qemu = lines_with(tmp_path / "qemu-trace", "vfio_msi_interrupt")
    past_qemu = raised - by_qemu
    assert past_qemu <= MAX_HELD if accelerator == "tcg" else past_qemu >= COMMANDS
