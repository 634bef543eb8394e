"""The archive that a guest boots from, read back as the kernel reads it."""

from __future__ import annotations

import re
import stat
import subprocess
import sys

from emu.guests.machine import initramfs
from emu.guests.machine.cpio import Archive


def entries(data):
    """Name, mode and contents of each entry, in order (buffer-format.rst)."""
    at = 0
    while True:
        assert at % 4 == 0
        assert data[at : at + 6] == b"070701"
        fields = [int(data[at + 6 + 8 * n : at + 14 + 8 * n], 16) for n in range(13)]
        size, name_size = fields[6], fields[11]
        name = data[at + 110 : at + 110 + name_size - 1].decode()
        at = (at + 110 + name_size + 3) & ~3
        if name == "TRAILER!!!":
            assert at == len(data)
            return
        yield name, fields[1], data[at : at + size]
        at = (at + size + 3) & ~3


def test_directories_come_before_what_is_in_them():
    archive = Archive()
    archive.file("a/b/c", b"12345", 0o755)
    archive.file("a/d", b"")
    archive.character_device("dev/console", 5, 1)
    found = list(entries(archive.pack()))
    assert [name for name, _, _ in found] == ["a", "a/b", "a/b/c", "a/d", "dev", "dev/console"]
    assert found[2] == ("a/b/c", stat.S_IFREG | 0o755, b"12345")
    assert stat.S_ISCHR(found[5][1])


def test_a_boot_has_its_programs_modules_and_settings():
    modules = [("crc.ko", b"crc"), ("ext4.ko", b"ext4")]
    data = initramfs.build(b"busybox", modules, {"release": "6.1 'x'", "probe": 1})
    files = {name: contents for name, _, contents in entries(data)}
    assert files["modules/order"] == b"crc.ko\next4.ko\n"
    assert files["modules/ext4.ko"] == b"ext4"
    assert files["bin/busybox"] == b"busybox"
    assert files["init"].startswith(b"#!/bin/busybox sh\n")
    assert files["mlx5emu/config"] == b"release='6.1 '\"'\"'x'\"'\"''\nprobe=1\n"
    assert files["mlx5emu/emu/guests/__init__.py"] == b""


def test_the_program_inside_has_all_that_it_imports(tmp_path):
    data = initramfs.build(b"busybox", [], {})
    files = {name: data for name, mode, data in entries(data) if stat.S_ISREG(mode)}
    for name, contents in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(contents)
    (statement,) = re.findall(r"^from emu\..* import main$", files["init"].decode(), re.MULTILINE)
    program = f"import sys\nsys.path.insert(0, {str(tmp_path / 'mlx5emu')!r})\n{statement}"
    subprocess.run([sys.executable, "-I", "-S", "-c", program], check=True)
