"""The contents of a guest image. Any change here changes every image's key, so all are rebuilt."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from importlib import resources
from pathlib import Path

from emu.guests.architecture import ARCHITECTURES, NATIVE, Architecture, is_native
from emu.guests.archive.names import SUITES, WHEEL, check_packages
from emu.guests.errors import LabError

_PACKAGES = (
    # RDMA: the user-space stack, its conformance suite, benchmarks and diagnostics
    "rdma-core",
    "ibverbs-utils",
    "infiniband-diags",
    "perftest",
    "python3-pyverbs",
    "python3-scapy",
    "rdmacm-utils",
    # users of RDMA: storage over fabrics, NFS
    "fio",
    "nfs-common",
    "nfs-kernel-server",
    "nvme-cli",
    # tools of the kernel's subsystems: devlink and rdma come with iproute2
    "ethtool",
    "iproute2",
    "iputils-ping",
    "iperf3",
    "kmod",
    "pciutils",
    # the rest of a usable system
    "busybox-static",
    "e2fsprogs",
    "procps",
    "python3",
    "util-linux",
    "xz-utils",
)

# Paths that no guest needs: documentation, hooks that would build an unused initramfs, and drivers
# of devices that QEMU does not emulate, which are two thirds of the kernel package.
_EXCLUDED = (
    "/etc/kernel/postinst.d/*",
    "/usr/share/kernel/postinst.d/*",
    "/usr/share/doc/*",
    "/usr/share/info/*",
    "/usr/share/locale/*",
    "/usr/share/man/*",
    *(
        f"{prefix}/lib/modules/*/kernel/{directory}/*"
        for prefix in ("", "/usr")
        for directory in (
            "sound",
            "drivers/accel",
            "drivers/comedi",
            "drivers/gpu",
            "drivers/hid",
            "drivers/iio",
            "drivers/input",
            "drivers/media",
            "drivers/net/wireless",
            "drivers/staging",
            "drivers/usb",
        )
    ),
)
_INCLUDED = tuple(f"/usr/share/doc/rdma-core{path}" for path in ("", "/tests", "/tests/*"))


_UNDECLARED = (
    "base-files", "base-passwd", "bash", "bsdutils", "coreutils", "dash", "debianutils",
    "diffutils", "findutils", "grep", "gzip", "hostname", "libc-bin", "ncurses-base", "ncurses-bin",
    "perl-base", "sed", "tar",
)  # fmt: skip
"""Essential packages, but for dpkg, init and login.

The variant ``minbase`` has them, ``extract`` only packages that others depend on.
"""
_SPARE_MIB = 2400  # free space in a root file system


@dataclass(frozen=True)
class Recipe:
    """Everything that determines an image's contents, except the package versions in the archive.

    With ``extra`` packages the image is built from that of :attr:`base` by the scripts ``restore``
    and ``install``, with ``python`` packages by ``restore`` and ``unpack``. Other images have no
    such scripts. ``python`` has requirements, and of each wheel the name and a hash.

    An image of another architecture than the host's has the extra packages among its own, because
    it cannot be extended here.
    """

    suite: str
    arch: str
    packages: tuple[str, ...]
    excluded: tuple[str, ...]
    included: tuple[str, ...]
    apt_options: tuple[str, ...]
    finalize: str
    pack: str
    extra: tuple[str, ...] = ()
    restore: str = ""
    install: str = ""
    python: tuple[str, ...] = ()
    unpack: str = ""

    @property
    def key(self) -> str:
        """A hash of the whole recipe: twelve hexadecimal digits."""
        values = asdict(self)
        if self.arch == "amd64":
            del values["arch"]  # keeps the keys from before there were others
        if not self.python:
            del values["python"]
        if not self.unpack:
            del values["unpack"]
        return hashlib.sha256(json.dumps(values).encode()).hexdigest()[:12]

    @property
    def name(self) -> str:
        """Directory of the image in the cache."""
        return "-".join((*self._other_arch, self.suite, self.key))

    @property
    def architecture(self) -> Architecture:
        """The architecture of its guests."""
        return ARCHITECTURES[self.arch]

    @property
    def is_extension(self) -> bool:
        """Whether the image is built from that of :attr:`base`."""
        return bool(self.restore)

    @property
    def _other_arch(self) -> list[str]:
        return [self.arch] * (self.arch != NATIVE.name)

    @property
    def base(self) -> Recipe:
        """The recipe without the extra packages."""
        return replace(self, extra=(), restore="", install="", python=(), unpack="")

    @property
    def title(self) -> str:
        """The image's name in messages: architecture, if not the host's, suite, extra packages."""
        name = " ".join((self.suite, *self._other_arch))
        extra = (*self.extra, *(word.partition(" ")[0] for word in self.python))
        return " with ".join(filter(None, (name, ", ".join(extra))))


def recipe(
    suite: str,
    packages: Sequence[str] = (),
    arch: Architecture = NATIVE,
    python: Sequence[str] = (),
) -> Recipe:
    """Return the recipe for a suite with extra packages; ignore those that every guest has anyway.

    ``python`` has requirements and paths of wheels, or the words of another recipe. Raises
    :class:`LabError` for an unknown suite, bad package names, a wheel that cannot be read, and for
    Python packages of a foreign architecture. The image is not built.
    """
    if suite not in SUITES:
        raise LabError(f"no guest suite {suite!r}: choose one of {', '.join(SUITES)}")
    check_packages(packages)
    apt_options = ['Acquire::Languages "none"', 'APT::Install-Recommends "false"']
    if suite == "sid":
        # An archive may hold an old snapshot of sid, whose Release file has expired.
        apt_options.append('Acquire::Check-Valid-Until "false"')
    extra = tuple(sorted(set(packages) - set(_PACKAGES)))
    base = Recipe(
        suite=suite,
        arch=arch.name,
        packages=(arch.kernel, *_PACKAGES),
        excluded=_EXCLUDED,
        included=_INCLUDED,
        apt_options=tuple(apt_options),
        finalize=_script("finalize"),
        pack=_script("pack").replace("@SPARE@", str(_SPARE_MIB)),
    )
    if not is_native(arch):
        if python:
            raise LabError(f"guests of {arch.name} have no additional Python packages")
        return _foreign(base, extra)
    restore, install = (
        _script(name).replace("@PACKAGES@", " ".join(extra)) for name in ("restore", "install")
    )
    if extra:
        base = replace(base, extra=extra, restore=restore, install=install)
    if python:
        words = tuple(sorted({_python_word(word) for word in python}))
        base = replace(base, restore=restore, python=words, unpack=_script("unpack"))
    return base


def _python_word(word: str) -> str:
    """Return a requirement unchanged, and for the path of a wheel its name and hash.

    Raises LabError for a wheel that cannot be read.
    """
    if not word.endswith(WHEEL):
        return word
    try:
        with open(word, "rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise LabError(f"{word}: {error.strerror}") from None
    return f"{Path(word).name} {digest}"


def _foreign(base: Recipe, extra: tuple[str, ...]) -> Recipe:
    """Return the recipe of another architecture, none of whose programs may run."""
    # pack.sh asks programs in the tree only for what an extension needs.
    finalize = _script("finalize_foreign").replace("@EXCLUDED@", " ".join(base.excluded))
    return replace(
        base,
        packages=(*base.packages, *_UNDECLARED, *extra),
        finalize=finalize,
        pack=f"chroot() {{ :; }}\n{base.pack}",
        extra=extra,
    )


def _script(name: str) -> str:
    return resources.files("emu.guests.image").joinpath(f"{name}.sh").read_text()
