"""Guest images: built from Debian's packages by recipe, kept in the cache, found by key.

An image is a directory: ``root.ext4`` (never written; each run adds a layer of its own), the
kernel as Debian ships it and unpacked, and what an initramfs needs. An image that is there is used
without looking at the network.
"""

from __future__ import annotations

import logging
import os
import shutil
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from emu.guest import cache, kernel
from emu.guest.bootstrap import Progress, bootstrap
from emu.guest.errors import LabError
from emu.guest.mirror import source_line
from emu.guest.modules import load_order, module_name
from emu.guest.recipe import SUITES, Recipe, recipe

logger = logging.getLogger(__name__)

_EXPORTS = "/usr/lib/mlx5emu"  # where the recipe's last step puts what the host takes out


@dataclass(frozen=True)
class Image:
    """An image in the cache."""

    path: Path
    suite: str
    key: str
    release: str
    rdma_core: str
    built: str
    modules: list[str] = field(default_factory=list)  # of the initramfs, in loading order

    @property
    def root_disk(self) -> Path:
        """The root file system: a raw disk of ext4 without partitions."""
        return self.path / "root.ext4"

    @property
    def kernel(self) -> Path:
        """The kernel to start: unpacked when QEMU can start that."""
        unpacked = self.path / "vmlinux"
        return unpacked if unpacked.exists() else self.path / "vmlinuz"

    @property
    def busybox(self) -> bytes:
        """The static busybox of this suite."""
        return (self.path / "busybox").read_bytes()

    @property
    def is_current(self) -> bool:
        """Whether it is what today's recipe would build."""
        return self.suite in SUITES and recipe(self.suite).key == self.key

    def boot_modules(self) -> list[tuple[str, bytes]]:
        """Names and contents of the modules that reach the root disk, in loading order."""
        return [(name, (self.path / "modules" / name).read_bytes()) for name in self.modules]


def ensure(
    suite: str,
    progress: Progress | None = None,
    on_wait: Callable[[], None] | None = None,
) -> Image:
    """The image of a suite, built now when the cache has none for today's recipe.

    Two processes that want the same one build it once: ``on_wait`` is called in the other.
    """
    wanted = recipe(suite)
    target = cache.subdir("images") / wanted.name
    image = _load(target)
    if image is None:
        with cache.lock(f"image-{suite}", on_wait):
            image = _load(target)
            if image is None:
                with cache.building(target) as work:
                    _build(wanted, work, progress)
                image = _load(target)
    if image is None:
        raise LabError(f"the image in {target} is damaged: remove it with mlx5emu guest clean")
    return image


def cached() -> list[Image]:
    """Every image in the cache, also those of older recipes."""
    found = [_load(path) for path in sorted(cache.subdir("images").iterdir())]
    return [image for image in found if image is not None]


def remove(image: Image) -> None:
    """Delete an image, once nobody builds one of its suite; a guest that runs keeps its files."""
    with cache.lock(f"image-{image.suite}"):
        shutil.rmtree(image.path)


def _load(path: Path) -> Image | None:
    info = cache.load_json(path / "info.json")
    try:
        return Image(path=path, **info)
    except TypeError:
        return None


def _build(wanted: Recipe, work: Path, progress: Progress | None) -> None:
    logger.info("building a guest image of %s", wanted.suite)
    disk = work / "root.ext4"
    # In a user namespace the packing step is another user, who may not even reach the cache.
    descriptor = os.open(disk, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o666)
    try:
        os.fchmod(descriptor, 0o666)
        bootstrap(
            _arguments(wanted, f"/proc/self/fd/{descriptor}"),
            what=f"guest image {wanted.suite}",
            log=cache.cache_dir() / f"build-{wanted.suite}.log",
            progress=progress,
            pass_fds=[descriptor],
        )
        os.fchmod(descriptor, 0o444)
    finally:
        os.close(descriptor)
    copy_out(disk, work, {f"{_EXPORTS}/{name}": name for name in _exported()})
    release = (work / "release").read_text().strip()
    modules = _export_modules(disk, work, f"/usr/lib/modules/{release}")
    vmlinux = kernel.extract_vmlinux(work / "vmlinuz")
    if vmlinux is not None:
        (work / "vmlinux").write_bytes(vmlinux)
    info = {
        "suite": wanted.suite,
        "key": wanted.key,
        "release": release,
        "rdma_core": (work / "rdma-core").read_text().strip(),
        "built": datetime.now(UTC).isoformat(timespec="seconds"),
        "modules": modules,
    }
    cache.save_json(work / "info.json", info)


def _exported() -> tuple[str, ...]:
    return ("vmlinuz", "busybox", "release", "rdma-core")


def _arguments(wanted: Recipe, disk: str) -> list[str]:
    finalize = wanted.finalize.replace("@IMAGE@", disk).replace("@SIZE@", wanted.size)
    return [
        "--variant=minbase",
        "--format=null",
        "--dpkgopt=force-unsafe-io",
        *(f"--dpkgopt=path-exclude={path}" for path in wanted.excluded),
        *(f"--dpkgopt=path-include={path}" for path in wanted.included),
        *(f"--aptopt={option}" for option in wanted.apt_options),
        f"--include={','.join(wanted.packages)}",
        f"--customize-hook={finalize}",
        wanted.suite,
        "/dev/null",
        source_line(wanted.suite),
    ]


def _export_modules(disk: Path, work: Path, tree: str) -> list[str]:
    """Take the modules that reach the root disk out of it; their names in loading order."""
    tables = {f"{tree}/modules.dep": "modules.dep", f"{tree}/modules.builtin": "modules.builtin"}
    copy_out(disk, work, tables)
    order = load_order(*((work / name).read_text() for name in tables.values()))
    (work / "modules").mkdir()
    copy_out(disk, work, {f"{tree}/{path}": f"modules/{module_name(path)}.ko" for path in order})
    return [f"{module_name(path)}.ko" for path in order]


def copy_out(disk: Path, work: Path, names: Mapping[str, str]) -> None:
    """Copy files out of an ext4 image, without mounting it; targets are relative to ``work``."""
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
