"""Extracts the driver's binaries from a guest image, for the layout check."""

from __future__ import annotations

from pathlib import Path

from emu.guests.errors import LabError
from emu.guests.image.build import copy_out
from emu.guests.image.image import Image
from emu.guests.kernel.modules import module_name

DRIVER = ("mlx5_core", "mlx5_ib")


def driver_binaries(image: Image, directory: Path) -> tuple[list[Path], Path]:
    """Copy mlx5_core and mlx5_ib to ``directory``; return the copies, and the path of their kernel.

    The modules are unchanged from the package, usually compressed. Raises :class:`LabError` when
    the image lacks the driver or is damaged.
    """
    try:
        lines = (image.path / "modules.dep").read_text().splitlines()
    except OSError as error:
        raise LabError(f"the image of {image.suite} is damaged: {error}") from error
    paths = {module_name(path): path for path in (line.partition(":")[0] for line in lines)}
    missing = [name for name in DRIVER if name not in paths]
    if missing:
        raise LabError(f"the kernel of {image.suite} has no module {' and no '.join(missing)}")
    tree = f"/usr/lib/modules/{image.release}"
    driver_paths = [paths[name] for name in DRIVER]
    copy_out(
        image.root_disk, directory, {f"{tree}/{path}": Path(path).name for path in driver_paths}
    )
    return [directory / Path(path).name for path in driver_paths], image.kernel
