"""Checks whether everything that the guest lab needs is available."""

from __future__ import annotations

import ctypes.util
import enum
import os
import platform
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import metadata

from emu.compiled import building
from emu.compiled.loading import NEVER, SETTING
from emu.compiled.sources import DEVICE
from emu.guests import cache
from emu.guests.architecture import ARCHITECTURES, HOSTS, NATIVE
from emu.guests.archive.mirror import KEYRING, debian_mirror
from emu.guests.archive.names import DEFAULT_SUITE, SUITES
from emu.guests.errors import LabError
from emu.guests.image import image
from emu.guests.image.image import Image
from emu.guests.machine import accel, qemu
from emu.guests.machine.qemu import Qemu
from emu.host import shipped
from emu.host.counted import decimal
from emu.version import COMPILED, code, code_line

_PACKAGES = ("click", "construct", "pyelftools", "pytest", "rich", "zstandard")
_ROOM = 3_000_000_000  # bytes: QEMU, one image, and the image's tree during its build
_SETUP = "scripts/setup" if shipped.is_checkout() else "pip install --force-reinstall mlx5emu"


class State(enum.Enum):
    """The state of one component of the lab."""

    GOOD = "ok"
    NOTE = "note"  # optional, or created when needed
    BAD = "missing"


@dataclass(frozen=True)
class Check:
    """One component of the lab; ``remedy`` is a command to type."""

    part: str
    state: State
    result: str
    remedy: str = ""


def examine() -> list[Check]:
    """Check every component of the lab and return the results in the order of display.

    Build and fetch nothing; a kernel may be booted once to test KVM. The tools for builds count as
    BAD only if QEMU or the default suite's image is not in the cache. Missing parts raise no error.
    """
    program, qemu_check = _qemu()
    current = [
        built
        for built in image.cached()
        if built.is_current and not built.packages and not built.python
    ]
    images = {built.suite: built for built in current if built.arch == NATIVE.name}
    # If everything is in the cache, the tools needed only for building may be absent.
    needed = State.BAD if program is None or DEFAULT_SUITE not in images else State.NOTE
    return [
        _machine(),
        _python(),
        _code(),
        *_builders(needed),
        qemu_check,
        _kvm(program, next(iter(images.values()), None)),
        *_images(images),
        *_foreign_images(current),
        _cache(needed),
        _libvfio_user(),
        _passt(),
    ]


def _machine() -> Check:
    system = f"{platform.system()} on {platform.machine()}"
    good = platform.system() == "Linux" and platform.machine() in HOSTS
    return Check("machine", State.GOOD if good else State.BAD, system)


def _python() -> Check:
    missing = []
    for name in _PACKAGES:
        try:
            metadata.version(name)
        except metadata.PackageNotFoundError:
            missing.append(name)
    if missing:
        return Check("Python packages", State.BAD, f"no {', '.join(missing)}", _SETUP)
    return Check("Python packages", State.GOOD, f"all, Python {platform.python_version()}")


def _code() -> Check:
    """Report whether the emulated device's code is compiled; pure Python is a NOTE, never BAD."""
    if code() == COMPILED:
        return Check("device's code", State.GOOD, code_line())
    if os.environ.get(SETTING) == NEVER:
        why = f"as {SETTING}={NEVER} says"
    elif failed := building.failure(DEVICE.key()):
        why = f"the last build failed: {failed}"
    else:
        why = building.missing() or "mlx5emu doctor --compile makes it faster"
    return Check("device's code", State.NOTE, f"{code_line()}; {why}")


def _builders(needed: State) -> list[Check]:
    """Check programs, keys and archive that a build needs; a missing one has state ``needed``."""
    checks = []
    path = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
    for program, package in (("mmdebstrap", "mmdebstrap"), ("mke2fs", "e2fsprogs")):
        program_path = shutil.which(program, path=path)
        state = State.GOOD if program_path else needed
        remedy = "" if program_path else f"apt-get install {package}"
        checks.append(Check(package, state, program_path or f"no {program}", remedy))
    keyring = KEYRING.exists()
    checks.append(
        Check(
            "archive keys",
            State.GOOD if keyring else needed,
            str(KEYRING) if keyring else f"no {KEYRING}",
            "" if keyring else "apt-get install debian-archive-keyring",
        )
    )
    try:
        checks.append(Check("package archive", State.GOOD, f"{debian_mirror()}, not contacted"))
    except LabError as error:
        checks.append(Check("package archive", needed, str(error), "export MLX5EMU_MIRROR=URI"))
    if os.geteuid() != 0:
        checks.append(_user_namespaces(needed))
    return checks


def _user_namespaces(needed: State) -> Check:
    """Check newuidmap, which mmdebstrap needs for users other than root."""
    if shutil.which("newuidmap") is None:
        return Check("user namespaces", needed, "no newuidmap", "apt-get install uidmap")
    return Check("user namespaces", State.GOOD, "newuidmap")


def _qemu() -> tuple[Qemu | None, Check]:
    """Return the QEMU that guests use, if any, and its check.

    The check is BAD if MLX5EMU_QEMU names an unsuitable one. A missing QEMU is a NOTE, because it
    is fetched when needed.
    """
    try:
        program = qemu.find()
    except LabError as error:
        return None, Check("QEMU", State.BAD, str(error), "unset MLX5EMU_QEMU")
    if program is None:
        result = "none with vfio-user-pci; Debian's is fetched when it is needed"
        return None, Check("QEMU", State.NOTE, result)
    result = f"{program.version_text} ({program.origin}): {qemu.program_path(program)}"
    return program, Check("QEMU", State.GOOD, result)


def _kvm(program: Qemu | None, built: Image | None) -> Check:
    """Check whether KVM boots a kernel, by the cached answer or else by booting one from ``built``.

    The check is never BAD, because without KVM guests run on emulated processors.
    """
    if not accel.is_accessible():
        result = "no accessible /dev/kvm: guests run on emulated processors"
        return Check("KVM", State.NOTE, result)
    answer = accel.known_answer(program) if program else None
    if program and built:
        answer = accel.kvm_boots(program, built, again=True)
    if answer is None:
        return Check("KVM", State.NOTE, "not tried yet: needs QEMU and a guest image")
    if answer:
        return Check("KVM", State.GOOD, "boots a kernel")
    certain = program is not None and accel.is_certain(program)
    why = "does not boot a kernel" if certain else "boots no kernel within 10 s"
    return Check("KVM", State.NOTE, f"{why}: guests run on emulated processors")


def _images(images: dict[str, Image]) -> list[Check]:
    """Report each suite's image; a missing one is a NOTE with the command that builds it."""
    checks = []
    for suite in SUITES:
        built = images.get(suite)
        if built is None:
            result = f"not built; mlx5emu guest build --suite {suite}"
            checks.append(Check(f"guest {suite}", State.NOTE, result))
        else:
            size = decimal(cache.disk_usage(built.path))
            result = f"Linux {built.release}, rdma-core {built.rdma_core}, {size}"
            checks.append(Check(f"guest {suite}", State.GOOD, result))
    return checks


def _foreign_images(current: Sequence[Image]) -> list[Check]:
    """Report each image of another architecture, and whether its QEMU would be fetched first."""
    checks = []
    for built in sorted(current, key=lambda one: (one.suite, one.arch)):
        arch = ARCHITECTURES.get(built.arch)
        if arch is None or arch is NATIVE:
            continue
        later = "" if qemu.find(arch) else f"; {arch.package} is fetched when it is needed"
        result = f"Linux {built.release}, {decimal(cache.disk_usage(built.path))}{later}"
        checks.append(Check(f"{built.suite} {arch.name}", State.GOOD, result))
    return checks


def _cache(needed: State) -> Check:
    """Report the cache's size and free space; below 3 GB free the state is ``needed``."""
    directory = cache.cache_dir()
    free = shutil.disk_usage(directory).free
    result = f"{directory}: {decimal(cache.disk_usage(directory))}, {decimal(free)} free"
    return Check("cache", State.GOOD if free > _ROOM else needed, result)


def _libvfio_user() -> Check:
    library = ctypes.util.find_library("vfio-user")
    if library is None:
        return Check("libvfio-user", State.NOTE, "absent; only --transport libvfio-user needs it")
    return Check("libvfio-user", State.GOOD, library)


def _passt() -> Check:
    path = shutil.which("passt")
    if path is None:
        absent = "absent; only --net user needs it"
        return Check("passt", State.NOTE, absent, "apt-get install passt")
    return Check("passt", State.GOOD, path)
