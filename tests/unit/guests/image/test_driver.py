"""The driver's binaries come out of an image by the names that its kernel package gives them."""

from __future__ import annotations

import pytest

from emu.guests.errors import LabError
from emu.guests.image import driver
from emu.guests.image.image import Image

CORE = "kernel/drivers/net/ethernet/mellanox/mlx5/core/mlx5_core.ko.xz"
IB = "kernel/drivers/infiniband/hw/mlx5/mlx5_ib.ko.xz"


@pytest.fixture
def image(tmp_path):
    return Image(tmp_path, "sid", "key", "7.2.13+deb14-amd64", "50", "2026")


@pytest.fixture
def dumped(monkeypatch):
    """What was asked of the disk instead of reading it."""
    calls = []
    monkeypatch.setattr(driver, "copy_out", lambda *arguments: calls.append(arguments))
    return calls


def test_modules_come_out_under_their_own_names(image, dumped, tmp_path):
    (tmp_path / "modules.dep").write_text(f"{IB}: {CORE} kernel/a.ko\n{CORE}: kernel/a.ko\n")
    modules, kernel = driver.driver_binaries(image, tmp_path / "out")
    assert [path.name for path in modules] == ["mlx5_core.ko.xz", "mlx5_ib.ko.xz"]
    assert kernel == tmp_path / "vmlinuz"
    tree = "/usr/lib/modules/7.2.13+deb14-amd64"
    wanted = {f"{tree}/{CORE}": "mlx5_core.ko.xz", f"{tree}/{IB}": "mlx5_ib.ko.xz"}
    assert dumped == [(tmp_path / "root.ext4", tmp_path / "out", wanted)]


def test_kernel_without_the_driver(image, dumped, tmp_path):
    (tmp_path / "modules.dep").write_text(f"{CORE}:\n")
    with pytest.raises(LabError, match="kernel of sid has no module mlx5_ib"):
        driver.driver_binaries(image, tmp_path)
    assert not dumped


def test_damaged_image(image, dumped, tmp_path):
    with pytest.raises(LabError, match="image of sid is damaged"):
        driver.driver_binaries(image, tmp_path)
    assert not dumped
