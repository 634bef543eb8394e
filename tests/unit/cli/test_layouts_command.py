"""``mlx5emu layouts check``: what it says and with which status it ends."""

from __future__ import annotations

import pytest
from click.testing import CliRunner
from helpers.files import kernel_files
from helpers.files.btf_blob import Blob
from helpers.structures import structure

from emu.cli.commands.functions import layouts as command
from emu.cli.main import main
from emu.guests.errors import LabError
from emu.guests.image import image
from layouts.btf.known import Known
from layouts.btf.report import What
from layouts.prm import bits, rsvd

THING = structure("thing", ("a", bits(8)), rsvd(8))


@pytest.fixture
def base():
    blob = Blob()
    blob.struct("task", 1, ("a", blob.integer(), 0))
    return blob


@pytest.fixture
def files(tmp_path, base):
    """A module and a kernel whose ``thing`` is ours, but for a field that we do not model."""
    module = Blob(base)
    module.ifc("thing", ("a", 8), ("b", 8))
    paths = {"module": tmp_path / "m.ko", "vmlinux": tmp_path / "vmlinux"}
    paths["module"].write_bytes(kernel_files.module(module.data()))
    paths["vmlinux"].write_bytes(kernel_files.vmlinux(base.data()))
    return paths


@pytest.fixture
def run(monkeypatch, files):
    def runner(*arguments, ours=THING, known=()):
        monkeypatch.setattr(command, "structures", lambda: {ours.__name__: ours})
        monkeypatch.setattr(command, "KNOWN", known)
        return CliRunner().invoke(main, ["layouts", "check", *map(str, arguments)])

    return runner


@pytest.fixture
def given(files):
    return ["--module", files["module"], "--vmlinux", files["vmlinux"]]


def test_equal(run, given):
    result = run(*given)
    assert result.exit_code == 0
    assert result.output == (
        "6.12.1-test: 1 structures hold: "
        "0 differences, 0 known differences, 1 fields not modelled\n"
    )


def test_fields_not_modelled(run, given):
    assert "\nthing.b\n" in run(*given, "--unmodelled").output


def test_a_difference(run, given):
    result = run(*given, ours=structure("thing", ("a", bits(4)), rsvd(12)))
    assert result.exit_code == 1
    assert "do not hold: 1 differences" in result.output
    (row,) = [line.split() for line in result.output.splitlines() if "thing.a" in line]
    assert row == ["thing.a", "width", "0x4", "0x8"]


def test_a_missing_field(run, given):
    result = run(*given, ours=structure("thing", ("old", bits(8)), rsvd(8)))
    (row,) = [line.split() for line in result.output.splitlines() if "thing.old" in line]
    assert row == ["thing.old", "missing", "field", "0x0", "-"]


def test_a_known_difference(run, given):
    known = [Known(("6.12",), What.WIDTH, "was narrow", ("thing.a",))]
    result = run(
        *given, "--explained", ours=structure("thing", ("a", bits(4)), rsvd(12)), known=known
    )
    assert result.exit_code == 0
    assert "1 known differences" in result.output
    assert "was narrow:\n    thing.a (width)" in result.output


def test_a_known_difference_that_is_none(run, given):
    result = run(*given, known=[Known((), What.WIDTH, "was narrow", ("thing.a",))])
    assert result.exit_code == 1
    assert "thing.a: this kernel does not have the known difference (width)" in result.output


def test_a_suites_own_binaries(run, files, monkeypatch):
    asked = []
    monkeypatch.setattr(image, "ensure", lambda suite, *_, **__: asked.append(suite) or suite)
    monkeypatch.setattr(
        command, "driver_binaries", lambda image, directory: ([files["module"]], files["vmlinux"])
    )
    result = run("--suite", "sid", "--suite", "trixie")
    assert result.exit_code == 0
    assert result.output.count("hold") == 2
    assert asked == ["sid", "trixie"]


class TestRefused:
    @pytest.mark.parametrize(
        "names", [(), ("--module",), ("--vmlinux",), ("--suite", "--module", "--vmlinux")]
    )
    def test_neither_or_both(self, run, files, names):
        values = {"--suite": "sid", "--module": files["module"], "--vmlinux": files["vmlinux"]}
        result = run(*(word for name in names for word in (name, values[name])))
        assert result.exit_code == 2
        assert "give either --suite" in result.output

    def test_a_file_of_another_kind(self, run, files):
        result = run("--module", __file__, "--vmlinux", files["vmlinux"])
        assert result.exit_code == 1
        assert result.output.startswith(f"mlx5emu: {__file__}: neither ELF nor")

    def test_btf_that_makes_no_sense(self, run, tmp_path, files, base):
        module = Blob(base)
        module.struct("mlx5_ifc_thing_bits", 2, ("a", 99, 0))
        path = tmp_path / "bad.ko"
        path.write_bytes(kernel_files.module(module.data()))
        result = run("--module", path, "--vmlinux", files["vmlinux"])
        assert result.exit_code == 1
        assert result.output == "mlx5emu: type 99 of 4\n"

    def test_no_image(self, run, monkeypatch):
        def fail(suite, *_, **__):
            raise LabError("mmdebstrap is not installed")

        monkeypatch.setattr(image, "ensure", fail)
        result = run("--suite", "sid")
        assert result.exit_code == 1
        assert "mlx5emu: mmdebstrap is not installed\n" in result.output
