"""finalize_foreign.sh, by the host's shell, on a tree like the one that mmdebstrap unpacks."""

from __future__ import annotations

import os
import subprocess

import pytest

from emu.guests.architecture import ARCHITECTURES
from emu.guests.image.recipe import recipe

RELEASE = "7.2.13-test"
FILES = {
    f"usr/lib/modules/{RELEASE}/vmlinux": "kernel",
    "usr/lib/s390x-linux-gnu/libibverbs.so.1.15.65.0": "",
    "usr/bin/busybox": "",
    "usr/bin/sh": "",
    "usr/sbin/reboot": "",
    "usr/share/doc/rdma-core/tests/test_qp.py": "",
    "usr/share/base-passwd/passwd.master": "root:*:0:0:root:/root:/bin/bash\n",
    "usr/share/base-passwd/group.master": "root:*:0:\n",
    "etc/fstab": "UNCONFIGURED",
}


@pytest.fixture
def root(tmp_path):
    """The tree after the script, whose depmod does nothing."""
    tools, root = tmp_path / "tools", tmp_path / "root"
    for name, text in FILES.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    tools.mkdir()
    (tools / "depmod").write_text("#!/bin/sh\n")
    (tools / "depmod").chmod(0o755)
    script = recipe("sid", (), ARCHITECTURES["s390x"]).finalize
    environ = os.environ | {"PATH": f"{tools}:{os.environ['PATH']}"}
    subprocess.run(["sh", "-c", script, "sh", str(root)], check=True, env=environ)
    return root


def test_a_guest_has_what_scripts_of_packages_would_make(root):
    """Without users rpcbind ends, and programs of fault plans have no folder."""
    users = [line.split(":") for line in (root / "etc/passwd").read_text().splitlines()]
    assert [user[0] for user in users] == ["root", "_rpc", "statd"]
    assert all(len(user) == 7 for user in users)
    for name in ("usr/local/bin", "usr/local/lib", "srv", "opt", "home", "var/opt"):
        assert (root / name).is_dir()
    assert (root / "usr/bin/awk").readlink().name == "busybox"
    assert not (root / "usr/bin/sh").is_symlink()


def test_the_host_finds_kernel_and_versions(root):
    for name, text in {
        "vmlinuz": "kernel",
        "release": f"{RELEASE}\n",
        "rdma-core": "65.0\n",
    }.items():
        assert (root / "usr/lib/mlx5emu" / name).read_text() == text
    assert (root / "usr/share/rdma-core-tests/test_qp.py").is_file()
    assert (root / "etc/fstab").read_text() == ""
