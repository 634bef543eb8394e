"""Finds the kernel of `--kernel`: a file, a build tree, packages, or a name of Debian's archive.

Packages are unpacked into the cache once. Missing tables of their modules are made, so a kernel
that was built for installation boots without one.
"""

from __future__ import annotations

import hashlib
import re
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from emu.guests import cache
from emu.guests.architecture import NATIVE, Architecture
from emu.guests.archive.bootstrap import Progress
from emu.guests.errors import LabError
from emu.guests.kernel import archive, module_tree
from emu.guests.kernel.binaries import check_kernel
from emu.guests.kernel.packages import check_architecture, is_package, unpack
from emu.host.userfiles import missing_text

ARCHIVE = archive.PREFIX
_PROGRAM = Path("linux")
"""The program that a build of User-Mode Linux makes."""


@dataclass(frozen=True)
class Chosen:
    """A kernel to boot: its file, and a module tree, a build tree, or neither."""

    kernel: Path
    modules: Path | None = None


def choose(
    words: Sequence[str],
    suite: str,
    progress: Progress | None = None,
    on_wait: Callable[[], None] | None = None,
    arch: Architecture = NATIVE,
) -> Chosen:
    """Return the kernel that the words mean: several packages, or one of the other kinds.

    ``suite`` is the suite of archive kernels without a version. Packages are unpacked into the
    cache, and an archive kernel is downloaded, unless the cache has them. Raises :class:`LabError`.
    """
    check(words, arch)
    if _is_archives(words):
        return _of_archive(words[0].removeprefix(ARCHIVE), suite, progress, on_wait, arch)
    paths = [Path(word).resolve() for word in words]
    if _are_packages(paths):
        return _of_packages(paths, on_wait)
    return Chosen(paths[0]) if paths[0].is_file() else _of_tree(paths[0], arch)


def check(words: Sequence[str], arch: Architecture = NATIVE) -> None:
    """Raise LabError for words that mean no kernel; fetch and unpack nothing.

    Refused are an unknown archive name, a missing path, several words that are not all packages,
    packages of another processor, and a file or tree that is no kernel. Whether the archive has the
    kernel is not checked.
    """
    if _is_archives(words):
        archive.package_pattern(words[0].removeprefix(ARCHIVE), arch)
        return
    paths = [Path(word).resolve() for word in words]
    for path in paths:
        if not path.exists():
            file = "bzImage" if arch.name == "amd64" else arch.boot_file
            what = f"a {file}, a build tree, packages, or debian:NAME"
            raise LabError(f"{missing_text('kernel', path)}; a kernel is {what}")
    if _are_packages(paths):
        for path in paths:
            check_architecture(path, arch)
        return
    if len(paths) != 1:
        raise LabError("only packages (.deb) can be combined; otherwise give one --kernel")
    if paths[0].is_file():
        check_kernel(paths[0], arch)
    else:
        _of_tree(paths[0], arch)


def _is_archives(words: Sequence[str]) -> bool:
    return len(words) == 1 and words[0].startswith(ARCHIVE)


def _are_packages(paths: Sequence[Path]) -> bool:
    return all(path.is_file() and is_package(path) for path in paths)


def release(kernel: Chosen) -> str:
    """Return the release of one of Debian's kernels: the output of `uname -r` in it."""
    assert kernel.modules is not None
    return kernel.modules.name


def _of_tree(tree: Path, arch: Architecture) -> Chosen:
    """Return the kernel that was built in a tree: ``linux`` of User-Mode Linux, else ``arch``'s.

    The modules are the tree if they were built there. Raises LabError without either file.
    """
    modules = tree if module_tree.is_build_tree(tree) else None
    is_amd64 = arch.name == "amd64"
    if is_amd64 and (tree / _PROGRAM).is_file():
        return Chosen(tree / _PROGRAM, modules)
    path = tree / arch.boot_file
    if not path.is_file():
        what = "a kernel's build tree" if (tree / ".config").exists() else "not a build tree"
        is_made = arch is NATIVE
        hint = ": mlx5emu kernel build makes it" if is_made else f", which {arch.name} guests boot"
        raise LabError(f"{tree} is {what} and has no {arch.boot_file}{hint}")
    if not is_amd64:
        check_kernel(path, arch)
    return Chosen(path, modules)


def _of_packages(paths: list[Path], on_wait: Callable[[], None] | None) -> Chosen:
    """Return the kernel in these .deb files; unpack them into the cache unless present.

    The cache's name is a hash of all contents.
    """
    digest = hashlib.sha256()
    for path in sorted(paths):
        with path.open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    name = f"deb-{digest.hexdigest()[:16]}"

    def fill(work: Path) -> None:
        for path in paths:
            unpack(path, work)

    return _cached(name, fill, on_wait)


def _of_archive(
    name: str,
    suite: str,
    progress: Progress | None,
    on_wait: Callable[[], None] | None,
    arch: Architecture,
) -> Chosen:
    """Return a kernel of the archive, from the cache if present; else download it.

    ``name`` is a flavour of ``suite``, or a version of any suite. Raises LabError for other names.
    A cached kernel is not updated: ``mlx5emu guest clean --kernels`` removes it.
    """
    archive.package_pattern(name, arch)
    has_version = archive.suites_of(name, suite) != (suite,)
    key = f"debian-{name}" if has_version else f"debian-{name}-{suite}"
    if arch.name != "amd64":
        key = f"{arch.name}-{key}"
    return _cached(key, lambda work: archive.fetch(name, suite, work, progress, arch), on_wait)


def _cached(name: str, fill: Callable[[Path], None], on_wait: Callable[[], None] | None) -> Chosen:
    """Return the cached kernel of that name; if absent, call ``fill`` to unpack its packages.

    Raises LabError for packages without a kernel and for a damaged directory.
    """
    target = cache.subdir("kernels") / name
    if not target.exists():
        with cache.lock(f"kernel-{name}", on_wait):
            if not target.exists():
                with cache.building(target) as work:
                    unpacked = work / "unpacked"
                    unpacked.mkdir()
                    fill(unpacked)
                    take_kernel(unpacked, work)
                    shutil.rmtree(unpacked)
    return _load_kernel(target)


def take_kernel(unpacked: Path, target: Path) -> None:
    """Move kernel, modules and configuration of the newest kernel out of unpacked packages.

    A missing modules.dep is made by depmod. Raises :class:`LabError` for packages without a kernel,
    or without its modules.
    """
    images = _images(unpacked)
    if not images:
        raise LabError(
            "the packages contain no kernel: linux-image-VERSION has one, or"
            " linux-image-VERSION, linux-binary-VERSION and linux-modules-VERSION together"
        )
    release = max(images, key=_version_key)
    shutil.move(images[release], target / "vmlinuz")
    tree = target / "lib" / "modules" / release
    tree.parent.mkdir(parents=True)
    for root in ("usr/lib/modules", "lib/modules"):
        if (unpacked / root / release).is_dir() and not (unpacked / root).is_symlink():
            shutil.copytree(unpacked / root / release, tree, symlinks=True, dirs_exist_ok=True)
    for config in (unpacked / "boot" / f"config-{release}", tree / "config"):
        if config.is_file():
            shutil.copy(config, target / "config")
    if not tree.is_dir():
        raise LabError(f"the packages have no modules for {release}: add linux-modules-{release}")
    if not (tree / "modules.dep").exists():
        module_tree.depmod(target, release)


def _images(unpacked: Path) -> dict[str, Path]:
    """Return the files of the kernels in unpacked packages, by release; empty without any."""
    return {
        path.name.partition("-")[2] if path.parent.name == "boot" else path.parent.name: path
        for where in (
            "boot/vmlinu[xz]-*",
            "lib/modules/*/vmlinu[xz]",
            "usr/lib/modules/*/vmlinu[xz]",
        )
        for path in unpacked.glob(where)
    }


def _version_key(release: str) -> list[tuple[int, str]]:
    # A candidate (7.3~rc1, 7.3-rc1) sorts before its release.
    words = re.findall(r"\d+|[a-z]+", release)
    return [(int(word), "") if word.isdigit() else (-1, word) for word in words] + [(0, "")]


def _load_kernel(target: Path) -> Chosen:
    """Return the kernel in a cache directory; LabError unless it has one kernel and module tree."""
    trees = list((target / "lib" / "modules").glob("*"))
    if len(trees) != 1 or not (target / "vmlinuz").is_file():
        raise LabError(f"the kernel in {target} is damaged: remove that directory")
    return Chosen(target / "vmlinuz", trees[0])
