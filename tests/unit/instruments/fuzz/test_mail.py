"""A finding as a mail for the kernel's list: where it goes, what it tells, the patch's frame."""

from __future__ import annotations

import dataclasses
import tomllib
from pathlib import Path

import pytest

import firmware_cmds  # noqa: F401  (declares the commands)
from emu.host.user_error import UserError
from emu.instruments.fuzz.report.mail import Report, mail, of_library
from emu.instruments.fuzz.report.place import place_of

FOLDER = Path(__file__).parents[4] / "examples" / "findings"
NAMES = list(tomllib.loads((FOLDER / "findings.toml").read_text()))
RX = "drivers/net/ethernet/mellanox/mlx5/core/en_rx.c"
WHERE = f"`{RX}`, mlx5e_handle_rx_cqe_mpwrq, line 7 in 6.12 (5 in 6.1): it is not checked."
LOG = """
[    1.0] mlx5_core 0000:01:00.0: Port module event: module 0, Cable plugged
[    9.1] WARNING: CPU: 0 PID: 9 at drivers/x.c:4 mlx5_odd+0x1/0x2 [mlx5_core]
[    9.1] Call Trace:
[    9.1]  ? mlx5_wrong_guess+0x1/0x2 [mlx5_core]
[    9.1]  mlx5_load+0x1/0x2 [mlx5_core]
"""
ONE = Report(
    "WARNING in mlx5_odd", "A device counts wrongly.", "It warns.", ["6.12", "7.2"],
    "seed = 1\n", "mlx5emu run", LOG, WHERE,
)  # fmt: skip


def test_what_the_mail_says():
    lines = mail(ONE).splitlines()
    assert lines[0] == "To: netdev@vger.kernel.org"
    assert lines[2] == (
        "Subject: [PATCH net] net/mlx5e: Check the device's values in mlx5e_handle_rx_cqe_mpwrq"
    )
    assert "A device counts wrongly. It warns." in lines
    assert "  mlx5_load+0x1/0x2 [mlx5_core]" in [line.replace("   ", "  ") for line in lines]
    assert not [line for line in lines if "wrong_guess" in line or "Cable" in line]
    assert "Seen in Linux 6.12, 7.2, with an emulated device:" in lines
    assert "  seed = 1" in lines
    assert lines.index("---") > lines.index("Signed-off-by: <your name and address>")


def test_rdma_has_a_list_of_its_own():
    where = WHERE.replace(RX, "drivers/infiniband/hw/mlx5/cq.c")
    lines = mail(dataclasses.replace(ONE, where=where)).splitlines()
    assert lines[0] == "To: linux-rdma@vger.kernel.org"
    assert lines[2].startswith("Subject: [PATCH rdma-rc] RDMA/mlx5: ")


def test_the_frame_has_the_lines_around(tmp_path):
    file = tmp_path / RX
    file.parent.mkdir(parents=True)
    file.write_text("".join(f"\tline {number};\n" for number in range(1, 30)))
    lines = mail(ONE, tmp_path).splitlines()
    at = lines.index("@@ -2,11 +2,11 @@ mlx5e_handle_rx_cqe_mpwrq")
    assert lines[at + 1 :] == [f" \tline {number};" for number in range(2, 13)]


@pytest.mark.parametrize("text", [None, "one\n"])
def test_a_tree_of_another_kernel(tmp_path, text):
    if text is not None:
        (tmp_path / RX).parent.mkdir(parents=True)
        (tmp_path / RX).write_text(text)
    with pytest.raises(UserError, match=r"Linux 6\.12"):
        mail(ONE, tmp_path)


def test_one_whose_place_nobody_knows():
    text = mail(dataclasses.replace(ONE, where="", log=""))
    assert "<the patch>" in text
    assert "<function>" in text


@pytest.mark.parametrize("name", NAMES)
def test_every_plan_of_the_library_makes_one(name):
    report = of_library(FOLDER / f"{name}.toml")
    assert place_of(report.where) is not None
    assert f"--faults {name}.toml" in mail(report)


@pytest.mark.parametrize("facts", [None, "= 7", "[other]\n", "[x]\ntitle = 1\n"])
def test_a_plan_of_no_library(tmp_path, facts):
    plan = tmp_path / "x.toml"
    plan.write_text('about = "x"\n')
    if facts is not None:
        (tmp_path / "findings.toml").write_text(facts)
    with pytest.raises(UserError):
        of_library(plan)


def test_a_plan_that_expects_nothing(tmp_path):
    (tmp_path / "x.toml").write_text('about = "x"\n')
    (tmp_path / "findings.toml").write_text('[x]\ntitle = "t"\nwhere = "w"\nkernels = []\n')
    with pytest.raises(UserError, match="expect"):
        of_library(tmp_path / "x.toml")
