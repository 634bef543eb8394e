"""Builds the directory of a guest image: runs mmdebstrap, then extracts the host's files.

The recipe's scripts make the root file system. The host copies kernel, busybox and modules out of
that image without mounting it.
"""

from __future__ import annotations

import contextlib
import logging
import os
import platform
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from emu.guests import cache
from emu.guests.architecture import is_native
from emu.guests.archive.bootstrap import Progress, bootstrap
from emu.guests.archive.disk_space import DiskSpace
from emu.guests.archive.mirror import source_line
from emu.guests.errors import LabError
from emu.guests.image import wheels
from emu.guests.image.recipe import Recipe
from emu.guests.kernel import binaries
from emu.guests.kernel.modules import load_order, module_name

logger = logging.getLogger(__name__)

ROOT_DISK = "root.ext4"
INFO = "info.json"
_DISK_SPACE = DiskSpace(cached=1_100_000_000, tree=1_240_000_000)
_EXPORTS = "/usr/lib/mlx5emu"  # directory of the recipe's files for the host
_EXPORTED = ("vmlinuz", "busybox", "release", "rdma-core")


def build(recipe: Recipe, work: Path, progress: Progress | None) -> None:
    """Build a suite's plain image in ``work``, an empty directory: disk, kernel, modules, info.

    Raises :class:`LabError`.
    """
    _make_disk(recipe, work, None, progress)
    disk = work / ROOT_DISK
    copy_out(disk, work, {f"{_EXPORTS}/{name}": name for name in _EXPORTED})
    release = (work / "release").read_text().strip()
    modules = _export_modules(disk, work, f"/usr/lib/modules/{release}")
    is_x86 = recipe.architecture.debian == "amd64"
    vmlinux = binaries.extract_vmlinux(work / "vmlinuz") if is_x86 else None
    if vmlinux is not None:
        (work / "vmlinux").write_bytes(vmlinux)
    rdma_core = (work / "rdma-core").read_text().strip()
    info = {
        "suite": recipe.suite,
        "arch": recipe.arch,
        "release": release,
        "rdma_core": rdma_core,
        "modules": modules,
    }
    _describe(recipe, work, info)


def extend(
    base: Path, recipe: Recipe, work: Path, progress: Progress | None, python: Sequence[str] = ()
) -> None:
    """Build an image in ``work`` from the one in ``base``, with the recipe's extra packages.

    ``python`` has the requirements and the paths of the wheels that the recipe names. Kernel and
    initramfs files are hard links into ``base``. Raises :class:`LabError`.
    """
    packed = _pack_python(base, recipe, work, progress, python) if python else None
    _make_disk(recipe, work, base / ROOT_DISK, progress, packed)
    if packed is not None:
        packed.unlink()
    for path in base.rglob("*"):
        target = work / path.relative_to(base)
        if path.is_dir():
            target.mkdir()
        elif path.name not in (ROOT_DISK, INFO):
            target.hardlink_to(path)
    _describe(recipe, work, cache.load_json(base / INFO))


def _pack_python(
    base: Path, recipe: Recipe, work: Path, progress: Progress | None, words: Sequence[str]
) -> Path:
    """Return an archive in ``work`` of Python packages for the image in ``base``.

    Raises LabError.
    """
    if progress is not None:
        progress(f"Python packages of guest image {recipe.title}", 0, 0)
    copy_out(base / ROOT_DISK, work, {"/var/lib/dpkg/status": "status"})
    status = work / "status"
    python = wheels.python_of(status.read_text(errors="replace"), platform.machine())
    status.unlink()
    log = cache.cache_dir() / f"build-{recipe.suite}-pip.log"
    return wheels.pack(words, python, work, recipe.title, log)


def try_packages(recipe: Recipe, progress: Progress | None) -> None:
    """Raise :class:`LabError` unless the archive has the extra packages and their dependencies.

    The check takes seconds (``apt --simulate``), where a build takes a minute. The image is not
    built.
    """
    extra = f"--include={','.join(recipe.extra)}"
    words = ["--simulate", "--variant=custom", *_common(recipe), extra, *_where(recipe)]
    _bootstrap(recipe, words, progress)


def _describe(recipe: Recipe, work: Path, image_info: Mapping[str, object]) -> None:
    built = datetime.now(UTC).isoformat(timespec="seconds")
    info = {"key": recipe.key, "built": built, "packages": recipe.extra, "python": recipe.python}
    cache.save_json(work / INFO, {**image_info, **info})


def _make_disk(
    recipe: Recipe,
    work: Path,
    base: Path | None,
    progress: Progress | None,
    packed: Path | None = None,
) -> None:
    """Run mmdebstrap, which leaves the root file system in ``work``, read-only (mode 0444).

    With ``base`` (a root disk) the recipe's extra packages are added to a copy of it, and with
    ``packed`` the Python packages of that archive. Raises LabError.
    """
    logger.info("building a guest image: %s", recipe.title)
    with contextlib.ExitStack() as stack:
        # In a user namespace these steps run as another user, who may be unable to reach the cache.
        target = _opened(stack, work / ROOT_DISK, os.O_CREAT | os.O_RDWR)
        os.fchmod(target, 0o666)
        if base is None:
            _bootstrap(recipe, _arguments(recipe, target), progress, [target], _DISK_SPACE)
        else:
            source = _opened(stack, base, os.O_RDONLY)
            descriptors = [source, target]
            if packed is not None:
                descriptors.append(_opened(stack, packed, os.O_RDONLY))
            words = _extension(recipe, *descriptors)
            _bootstrap(recipe, words, progress, descriptors, _DISK_SPACE)
        os.fchmod(target, 0o444)


def _opened(stack: contextlib.ExitStack, path: Path, flags: int) -> int:
    descriptor = os.open(path, flags | os.O_CLOEXEC, 0o666)
    stack.callback(os.close, descriptor)
    return descriptor


def _bootstrap(
    recipe: Recipe,
    arguments: list[str],
    progress: Progress | None,
    pass_fds: Sequence[int] = (),
    space: DiskSpace | None = None,
) -> None:
    """Run mmdebstrap for a recipe; its log is ``build-SUITE.log`` in the cache. Raises LabError."""
    bootstrap(
        arguments,
        what=f"guest image {recipe.title}",
        log=cache.cache_dir() / f"build-{'-'.join(recipe.title.split()[:2])}.log",
        space=space,
        progress=progress,
        pass_fds=pass_fds,
    )


def _arguments(recipe: Recipe, target: int) -> list[str]:
    """Return mmdebstrap's arguments for a plain image; ``target`` is the disk's descriptor."""
    arch = recipe.architecture
    if is_native(arch):
        variant, hook = ["--variant=minbase"], "--customize-hook"
    else:  # mmdebstrap configures nothing, and calls no customize hooks
        variant, hook = ["--variant=extract", f"--architectures={arch.debian}"], "--extract-hook"
    return [
        *variant,
        *_common(recipe),
        f"--include={','.join(recipe.packages)}",
        f"{hook}={recipe.finalize}",
        f"{hook}={_filled(recipe.pack, IMAGE=target)}",
        *_where(recipe),
    ]


def _extension(recipe: Recipe, source: int, target: int, packed: int = -1) -> list[str]:
    """Return mmdebstrap's arguments for an image with extra packages, from the descriptors."""
    scripts = [recipe.install, _filled(recipe.unpack, PYTHON=packed)]
    return [
        "--variant=custom",
        *_common(recipe),
        f"--setup-hook={_filled(recipe.restore, BASE=source)}",
        *(f"--customize-hook={script}" for script in scripts if script),
        f"--customize-hook={_filled(recipe.pack, IMAGE=target)}",
        *_where(recipe),
    ]


def _common(recipe: Recipe) -> list[str]:
    """Return mmdebstrap's arguments of all images: null format, excluded paths, apt's options."""
    return [
        "--format=null",
        "--dpkgopt=force-unsafe-io",
        *(f"--dpkgopt=path-exclude={path}" for path in recipe.excluded),
        *(f"--dpkgopt=path-include={path}" for path in recipe.included),
        *(f"--aptopt={option}" for option in recipe.apt_options),
    ]


def _where(recipe: Recipe) -> list[str]:
    return [recipe.suite, "/dev/null", source_line(recipe.suite)]


def _filled(script: str, **descriptors: int) -> str:
    for name, descriptor in descriptors.items():
        script = script.replace(f"@{name}@", f"/proc/self/fd/{descriptor}")
    return script


def _export_modules(disk: Path, work: Path, tree: str) -> list[str]:
    """Copy the modules that mount the root disk to ``work``; return their names in load order.

    Raises LabError for a module that the kernel lacks.
    """
    tables = {f"{tree}/modules.dep": "modules.dep", f"{tree}/modules.builtin": "modules.builtin"}
    copy_out(disk, work, tables)
    order = load_order(*((work / name).read_text() for name in tables.values()))
    (work / "modules").mkdir()
    copy_out(disk, work, {f"{tree}/{path}": f"modules/{module_name(path)}.ko" for path in order})
    return [f"{module_name(path)}.ko" for path in order]


def copy_out(disk: Path, work: Path, names: Mapping[str, str]) -> None:
    """Copy files out of an ext4 image, without mounting it; targets are relative to ``work``.

    ``names`` maps sources in the image to targets. Raises LabError without debugfs(8), or for a
    source that the image lacks.
    """
    environ = os.environ | {"PATH": f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"}
    program = shutil.which("debugfs", path=environ["PATH"])
    if program is None:
        raise LabError("debugfs is not installed: install the package e2fsprogs")
    commands = "".join(f'dump "{source}" "{target}"\n' for source, target in names.items())
    result = subprocess.run(
        [program, "-f", "-", str(disk)],
        input=commands,
        cwd=work,
        capture_output=True,
        text=True,
        check=False,
    )
    for source, target in names.items():
        if not (work / target).exists():
            raise LabError(f"the image lacks {source}: {result.stderr.strip()}")
