"""Tests whether KVM works by booting a kernel, since an accessible /dev/kvm proves little.

On some hosts, mostly nested ones, the device exists but no stock kernel boots with it. The answer
is cached for this host kernel, processor and QEMU.
"""

from __future__ import annotations

import logging
import os
import platform
import subprocess
import time
from pathlib import Path

from emu.guests import cache
from emu.guests.image.image import Image
from emu.guests.machine import initramfs
from emu.guests.machine.command_line import Machine, arguments
from emu.guests.machine.qemu import Qemu
from emu.guests.workdir import work_directory

logger = logging.getLogger(__name__)

STORE = "kvm-boots.json"
"""File of the cached answers."""
PROBE_TIMEOUT = 10.0  # seconds; a working KVM needs one or two
_SLOW_SECONDS = 24 * 3600
"""Seconds for which a boot that took too long counts as one that KVM does not do."""
_INTERNAL_ERROR = b"KVM internal error"
"""QEMU then stops the guest and does not end (accel/kvm/kvm-all.c: kvm_handle_internal_error)."""
_DEVICE = Path("/dev/kvm")
_MODEL = ("model name", "CPU implementer", "CPU variant", "CPU part")
"""Lines of /proc/cpuinfo about the model: the first on x86, the others on arm64."""
_MARKER = "mlx5emu: KVM works"
_INIT = f"""#!/bin/busybox sh
echo "{_MARKER}"
poweroff -f
"""


def choose(requested: str, qemu: Qemu, image: Image) -> str:
    """Return ``requested``; for ``auto`` return ``kvm`` if KVM boots a kernel here, else ``tcg``.

    ``auto`` and ``kvm`` may boot a kernel once to find out; ``kvm`` is returned whatever the answer
    is, since the guest's own kernel may boot where that one did not.
    """
    if requested == "tcg":
        return requested
    return "kvm" if kvm_boots(qemu, image) or requested == "kvm" else "tcg"


def is_accessible() -> bool:
    """Return whether this user may use KVM at all."""
    return os.access(_DEVICE, os.R_OK | os.W_OK)


def known_answer(qemu: Qemu) -> bool | None:
    """Return the cached answer whether KVM boots a kernel here; None if untested.

    Return False without access to /dev/kvm. A boot that only took too long counts for a day,
    because the host may have been busy. No kernel is booted.
    """
    if not is_accessible():
        return False
    answer = cache.load_json(_store()).get(_host(qemu))
    if isinstance(answer, float):
        return False if time.time() - answer < _SLOW_SECONDS else None
    return answer if isinstance(answer, bool) else None


def is_doubted(accelerator: str, qemu: Qemu) -> bool:
    """Return whether a guest uses KVM on a host where KVM has booted no kernel."""
    return accelerator == "kvm" and known_answer(qemu) is False


def is_certain(qemu: Qemu) -> bool:
    """Return whether the cached answer is a yes or a definite no, instead of a boot too slow."""
    return isinstance(cache.load_json(_store()).get(_host(qemu)), bool)


def kvm_boots(qemu: Qemu, image: Image, *, again: bool = False) -> bool:
    """Return whether KVM boots a stock kernel here; boot ``image``'s kernel once to find out.

    The answer is cached for this host kernel, processor and QEMU. With ``again`` an answer that is
    not certain is replaced.
    """
    if (answer := known_answer(qemu)) is not None and (is_certain(qemu) or not again):
        return answer
    with cache.lock("kvm"):
        answer = None if again else known_answer(qemu)
        if answer is None:
            answer = _try(qemu, image)
            said = {True: "boots", False: "does not boot", None: "was too slow to boot"}[answer]
            logger.info("KVM %s a kernel on this host", said)
            stored = time.time() if answer is None else answer
            cache.save_json(_store(), cache.load_json(_store()) | {_host(qemu): stored})
    return bool(answer)


def forget() -> None:
    """Remove all cached answers, so that the next guest asks again."""
    _store().unlink(missing_ok=True)


def _store() -> Path:
    return cache.cache_dir() / STORE


def _host(qemu: Qemu) -> str:
    """Return a text of host kernel, processor and QEMU version: the key of the cached answer."""
    about = _processor(Path("/proc/cpuinfo").read_text())
    return f"{platform.release()} / {about or '?'} / QEMU {qemu.version_text}"


def _processor(cpuinfo: str) -> str:
    """Return what /proc/cpuinfo says of the first processor's model; "" if it says nothing."""
    pairs = (line.partition(":") for line in reversed(cpuinfo.splitlines()))
    first = {name.strip(): value.strip() for name, _, value in pairs}
    return " ".join(first[name] for name in _MODEL if name in first)


def _try(qemu: Qemu, image: Image) -> bool | None:
    """Boot a kernel with KVM; return whether its init printed the marker, None after 10 s.

    False is definite: QEMU does not start, ends early, or reports an internal error of KVM.
    """
    with work_directory() as work:
        initrd, said = work / "initrd", work / "output"
        initrd.write_bytes(initramfs.build(image.busybox, [], {}, init=_INIT))
        machine = Machine(
            qemu=qemu, accelerator="kvm", kernel=image.kernel, initrd=initrd, memory_mib=512
        )
        with said.open("wb") as output:
            try:
                subprocess.run(
                    arguments(machine),
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    check=False,
                    timeout=PROBE_TIMEOUT,
                )
            except OSError:
                return False
            except subprocess.TimeoutExpired:
                return False if _INTERNAL_ERROR in said.read_bytes() else None
        return _MARKER.encode() in said.read_bytes()
