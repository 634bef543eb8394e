"""Where a finding lies: by the kernel's own report, by a build's symbols, by the sources."""

from __future__ import annotations

import pytest

from emu.instruments.fuzz.report import place
from emu.instruments.fuzz.report.mail import Report, mail
from emu.instruments.fuzz.report.place import SourceLine, decoded, place_in
from emu.instruments.outcome import Finding, Kind

CMD = "drivers/net/ethernet/mellanox/mlx5/core/cmd.c"
CQ = "drivers/infiniband/hw/mlx5/cq.c"


def bug(*lines, function=""):
    return Finding(Kind.WARNING, "it", function, lines)


def test_a_warning_names_its_line():
    said = bug(f"WARNING: CPU: 0 PID: 9 at {CMD}:40 mlx5_cmd_odd.cold+0x1/0x2 [mlx5_core]")
    assert place_in(said, "6.12", None) == SourceLine(CMD, "mlx5_cmd_odd", 40, "6.12")


def test_a_bug_names_its_line_without_a_function():
    said = bug("kernel BUG at mm/slub.c:40!", f"kernel BUG at {CQ}:7!", function="mlx5_poll_one")
    assert place_in(said, "6.12", None) == SourceLine(CQ, "mlx5_poll_one", 7, "6.12")


def test_frames_that_have_been_decoded():
    said = bug(
        "RIP: 0010:_raw_spin_lock+0x1/0x2 (kernel/locking/spinlock.c:154)",
        f" ? mlx5_old+0x1/0x2 [mlx5_ib] ({CQ}:1)",
        f" mlx5_ib_poll_cq+0x12/0x34 [mlx5_ib] ({CQ}:621)",
        f" mlx5_later+0x12/0x34 [mlx5_ib] ({CQ}:7)",
    )
    assert place_in(said, "7.2", None) == SourceLine(CQ, "mlx5_ib_poll_cq", 621, "7.2")


def test_sources_know_where_a_function_begins(tmp_path):
    said = bug("RIP: 0010:strlen+0x1/0x2", " ? mlx5_old+0x1/0x2", " mlx5_find+0x1/0x20 [mlx5_ib]")
    file = tmp_path / CQ
    file.parent.mkdir(parents=True)
    file.write_text("int mlx5_find(int n);\n\nstatic int mlx5_find(int n)\n{\n}\n")
    assert place_in(said, "6.1", tmp_path) == SourceLine(CQ, "mlx5_find", 3, "6.1")
    file.write_text("")
    assert place_in(said, "6.1", tmp_path) == SourceLine("", "mlx5_find", 0, "6.1")
    assert place_in(said, "6.1", None) == SourceLine("", "mlx5_find", 0, "6.1")


@pytest.mark.parametrize(
    "line",
    [
        "nothing of it",
        "WARNING: at drivers/net/ethernet/mellanox/mlx5/../../../../../../etc/passwd.c:1",
        "WARNING: at drivers/net/ethernet/intel/e1000/e1000_main.c:1",
    ],
)
def test_no_place_of_the_driver(tmp_path, line):
    assert place_in(bug(line), "6.12", tmp_path) is None


def test_a_build_decodes_the_log(tmp_path, monkeypatch):
    assert decoded("as it is", tmp_path) == "as it is"
    (tmp_path / "vmlinux").touch()

    class Decoder:
        def __init__(self, tree):
            assert tree == tmp_path

        def decode(self, text):
            return text.replace("[mlx5_ib]", f"[mlx5_ib] ({CQ}:9)")

    monkeypatch.setattr(place, "StackTraceDecoder", Decoder)
    assert decoded("mlx5_x+0x1/0x2 [mlx5_ib]", tmp_path).endswith(f"({CQ}:9)")


def test_the_mail_of_a_finding_of_a_corpus():
    log = (
        f"[    9.1] WARNING: CPU: 0 PID: 9 at {CQ}:40 mlx5_poll_one+0x1/0x2 [mlx5_ib]\n"
        "[    9.1] Call Trace:\n[    9.1]  mlx5_ib_poll_cq+0x1/0x2 [mlx5_ib]\n"
    )
    title = "WARNING in mlx5_poll_one"
    lines = mail(Report(title, "It lies.", "It warns.", ["6.12"], "", "x", log)).splitlines()
    assert lines[0] == "To: linux-rdma@vger.kernel.org"
    assert lines[1] == f"Cc: <scripts/get_maintainer.pl -f {CQ}>"
    assert lines[2] == (
        "Subject: [PATCH rdma-rc] RDMA/mlx5: Check the device's values in mlx5_poll_one"
    )
    assert "@@ -40 +40 @@ mlx5_poll_one" in lines
