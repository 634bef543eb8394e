"""Tests whether KVM works by booting a kernel, since an accessible /dev/kvm proves little.

On some hosts, mostly nested ones, the device exists but no stock kernel boots with it. The answer
is cached for this host kernel, processor and QEMU.
"""

from __future__ import annotations

import logging
import os
import platform
import subprocess
from pathlib import Path

from emu.guests import cache
from emu.guests.image.image import Image
from emu.guests.machine import initramfs
from emu.guests.machine.command_line import Machine, arguments
from emu.guests.machine.qemu import Qemu
from emu.guests.workdir import work_directory

logger = logging.getLogger(__name__)

PROBE_TIMEOUT = 10.0  # seconds; a working KVM needs one or two
_DEVICE = Path("/dev/kvm")
_MARKER = "mlx5emu: KVM works"
_INIT = f"""#!/bin/busybox sh
echo "{_MARKER}"
poweroff -f
"""


def choose(requested: str, qemu: Qemu, image: Image) -> str:
    """Return ``requested``; for ``auto`` return ``kvm`` if KVM boots a kernel here, else ``tcg``.

    ``auto`` may boot a kernel once to find out.
    """
    if requested != "auto":
        return requested
    return "kvm" if kvm_boots(qemu, image) else "tcg"


def is_accessible() -> bool:
    """Return whether this user may use KVM at all."""
    return os.access(_DEVICE, os.R_OK | os.W_OK)


def known_answer(qemu: Qemu) -> bool | None:
    """Return the cached answer whether KVM boots a kernel here; None if untested.

    Return False without access to /dev/kvm. No kernel is booted.
    """
    if not is_accessible():
        return False
    answer = cache.load_json(cache.cache_dir() / "kvm.json").get(_host(qemu))
    return answer if isinstance(answer, bool) else None


def kvm_boots(qemu: Qemu, image: Image) -> bool:
    """Return whether KVM boots a stock kernel here; boot ``image``'s kernel once to find out.

    The answer is cached for this host kernel, processor and QEMU.
    """
    answer = known_answer(qemu)
    if answer is not None:
        return answer
    with cache.lock("kvm"):
        answer = known_answer(qemu)
        if answer is None:
            answer = _try(qemu, image)
            logger.info("KVM %s a kernel on this host", "boots" if answer else "does not boot")
            store = cache.cache_dir() / "kvm.json"
            cache.save_json(store, cache.load_json(store) | {_host(qemu): answer})
    return answer


def _host(qemu: Qemu) -> str:
    """Return a text of host kernel, processor and QEMU version: the key of the cached answer."""
    models = [
        line.partition(":")[2].strip()
        for line in Path("/proc/cpuinfo").read_text().splitlines()
        if line.startswith("model name")
    ]
    return f"{platform.release()} / {models[0] if models else '?'} / QEMU {qemu.version_text}"


def _try(qemu: Qemu, image: Image) -> bool:
    """Boot a kernel with KVM for at most 10 s; return whether its init printed the marker."""
    with work_directory() as work:
        initrd = work / "initrd"
        initrd.write_bytes(initramfs.build(image.busybox, [], {}, init=_INIT))
        machine = Machine(
            qemu=qemu, accelerator="kvm", kernel=image.kernel, initrd=initrd, memory_mib=512
        )
        try:
            result = subprocess.run(
                arguments(machine),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                check=False,
                timeout=PROBE_TIMEOUT,
            )
        except (OSError, subprocess.TimeoutExpired):
            return False
    return _MARKER in result.stdout
