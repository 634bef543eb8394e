"""Guest images: built from Debian's packages by recipe, kept in the cache, found by key.

An image is a directory: ``root.ext4`` (never written; each run adds its own layer), the kernel as
packaged by Debian and unpacked, and the files of an initramfs. An image in the cache is used
without network access. An image with extra packages is built from the suite's plain image, shares
its kernel, and takes a third of the time to build.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from emu.guests import cache
from emu.guests.architecture import ARCHITECTURES, NATIVE, Architecture
from emu.guests.archive.bootstrap import Progress
from emu.guests.archive.names import SUITES
from emu.guests.errors import LabError
from emu.guests.image.build import INFO, ROOT_DISK, build, extend, try_packages
from emu.guests.image.recipe import Recipe, recipe


@dataclass(frozen=True)
class Image:
    """An image in the cache."""

    path: Path
    suite: str
    key: str
    release: str
    rdma_core: str
    built: str
    modules: list[str] = field(default_factory=list)  # loaded by the initramfs, in loading order
    packages: list[str] = field(default_factory=list)  # installed in addition to the standard ones
    arch: str = "amd64"
    python: list[str] = field(default_factory=list)  # Python packages, and wheels with a hash

    @property
    def root_disk(self) -> Path:
        """The root file system: a raw ext4 disk without a partition table."""
        return self.path / ROOT_DISK

    @property
    def kernel(self) -> Path:
        """The kernel to start: the unpacked one if QEMU can start it."""
        unpacked = self.path / "vmlinux"
        return unpacked if unpacked.exists() else self.path / "vmlinuz"

    @property
    def busybox(self) -> bytes:
        """The static busybox of this suite."""
        return (self.path / "busybox").read_bytes()

    @property
    def is_current(self) -> bool:
        """Whether the current recipe would build this same image."""
        if self.suite not in SUITES or self.arch not in ARCHITECTURES:
            return False
        arch = ARCHITECTURES[self.arch]
        return recipe(self.suite, self.packages, arch, self.python).key == self.key

    def boot_modules(self) -> list[tuple[str, bytes]]:
        """Return names and contents of the modules that mount the root disk, in loading order."""
        return [(name, (self.path / "modules" / name).read_bytes()) for name in self.modules]


def ensure(
    suite: str,
    packages: Sequence[str] = (),
    progress: Progress | None = None,
    on_wait: Callable[[], None] | None = None,
    arch: Architecture = NATIVE,
    python: Sequence[str] = (),
) -> Image:
    """Return the image of a suite; build it if the cache has none for the current recipe.

    ``packages`` are Debian packages to install in addition to the standard ones; ``python`` are
    Python's, requirements (``numpy==2.3.1``) or paths of wheels. If two processes need the same
    image, one builds it and the other calls ``on_wait`` and waits. Raises :class:`LabError` for an
    unknown suite, a bad package, a failed build or a damaged image.
    """
    needed = recipe(suite, packages, arch, python)
    target = cache.subdir("images") / needed.name
    image = _load(target)
    if image is None:
        base = _base(needed, progress, on_wait) if needed.is_extension else None
        with cache.lock(f"image-{suite}", on_wait):
            image = _load(target)
            if image is None:
                with cache.building(target) as work:
                    if base is None:
                        build(needed, work, progress)
                    else:
                        extend(base.path, needed, work, progress, python)
                image = _load(target)
    if image is None:
        raise LabError(f"the image in {target} is damaged: remove it with mlx5emu guest clean")
    return image


def find(suite: str) -> Image | None:
    """Return the plain image of a suite if the cache has it, else None; build nothing."""
    return _load(cache.subdir("images") / recipe(suite, ()).name)


def _base(needed: Recipe, progress: Progress | None, on_wait: Callable[[], None] | None) -> Image:
    """Return the suite's plain image, to which extra packages are added; build it if absent.

    Before such a build, raise LabError for a package that the archive lacks.
    """
    if _load(cache.subdir("images") / needed.base.name) is None:
        # A build takes a minute; this check of the archive's packages takes seconds.
        try_packages(needed, progress)
    return ensure(needed.suite, (), progress, on_wait)


def cached() -> list[Image]:
    """Return every image in the cache, including those of older recipes."""
    images = [_load(path) for path in sorted(cache.subdir("images").iterdir())]
    return [image for image in images if image is not None]


def remove(image: Image) -> None:
    """Delete an image after builds of its suite have ended; running guests keep its open files."""
    with cache.lock(f"image-{image.suite}"):
        shutil.rmtree(image.path)


def _load(path: Path) -> Image | None:
    """Return the image in a directory; None if its info.json is absent or has other fields."""
    info = cache.load_json(path / INFO)
    try:
        return Image(path=path, **info)
    except TypeError:
        return None
