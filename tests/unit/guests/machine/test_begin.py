"""Parts of begin.sh, which the guest runs, by the host's shell."""

from __future__ import annotations

import subprocess
from importlib import resources

import pytest

from emu.guests import inside


@pytest.mark.parametrize(
    ("wanted", "page_kib", "pages"),
    [(64, 2048, 64), (64, 32768, 4), (1, 32768, 1), (64, 1024, 128), (64, 16384, 8)],
    ids=["amd64", "default of pages of 16 KiB", "at least one", "s390x", "POWER, hash"],
)
def test_huge_pages_have_the_memory_that_was_asked_for(tmp_path, wanted, page_kib, pages):
    """A guest with pages of 16 KiB lost all its memory to 64 pages of 32 MiB."""
    text = resources.files(inside).joinpath("begin.sh").read_text()
    script = text[text.index('if [ "$hugepages"') : text.index("cannot_mount()")]
    meminfo, number = tmp_path / "meminfo", tmp_path / "number"
    meminfo.write_text(f"HugePages_Free: 0\nHugepagesize:   {page_kib} kB\nHugetlb:  0 kB\n")
    script = script.replace("/proc/meminfo", str(meminfo))
    script = script.replace("/proc/sys/vm/nr_hugepages", str(number))
    start = f"set -e\nmount() {{ :; }}\nbusybox= hugepages={wanted}\n"
    subprocess.run(["sh", "-c", start + script], check=True)
    assert int(number.read_text()) == pages
