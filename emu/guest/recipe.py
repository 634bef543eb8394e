"""What a guest image is made of. A change here gives every image a new key, so a new build."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from importlib import resources

from emu.guest.errors import LabError

SUITES = ("bookworm", "trixie", "sid")
DEFAULT_SUITE = "trixie"

_PACKAGES = (
    "linux-image-amd64",
    # RDMA: the user-space stack, its conformance suite, benchmarks and diagnostics
    "rdma-core",
    "ibverbs-utils",
    "infiniband-diags",
    "perftest",
    "python3-pyverbs",
    "rdmacm-utils",
    # what uses RDMA: storage over fabrics, NFS
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
    # the rest of a system that can be worked in
    "busybox-static",
    "e2fsprogs",
    "procps",
    "python3",
    "util-linux",
    "xz-utils",
)

# Paths that no guest needs: texts, hooks that would build an initramfs nobody boots, drivers of
# devices that QEMU does not show it. The last are two thirds of the kernel package.
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


@dataclass(frozen=True)
class Recipe:
    """All that decides what is in an image, except the versions that the archive has that day."""

    suite: str
    packages: tuple[str, ...]
    excluded: tuple[str, ...]
    included: tuple[str, ...]
    apt_options: tuple[str, ...]
    finalize: str
    size: str

    @property
    def key(self) -> str:
        """Twelve hexadecimal digits that change with any part of the recipe."""
        return hashlib.sha256(json.dumps(asdict(self)).encode()).hexdigest()[:12]

    @property
    def name(self) -> str:
        """Directory of the image in the cache."""
        return f"{self.suite}-{self.key}"


def recipe(suite: str) -> Recipe:
    """The recipe for a suite; :class:`LabError` for one that there is none for."""
    if suite not in SUITES:
        raise LabError(f"no guest suite {suite!r}: choose one of {', '.join(SUITES)}")
    apt_options = ['Acquire::Languages "none"', 'APT::Install-Recommends "false"']
    if suite == "sid":
        # An archive may hold an old state of sid, whose Release file is past its validity.
        apt_options.append('Acquire::Check-Valid-Until "false"')
    return Recipe(
        suite=suite,
        packages=_PACKAGES,
        excluded=_EXCLUDED,
        included=_INCLUDED,
        apt_options=tuple(apt_options),
        finalize=resources.files("emu.guest").joinpath("finalize.sh").read_text(),
        size="3G",
    )
