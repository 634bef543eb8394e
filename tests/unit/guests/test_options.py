"""What a guest can be asked to be, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from emu.guests import GuestOptions, LabError
from emu.guests.options import OptionError, option_named
from emu.guests.options.checks import check_options
from emu.guests.requested import check_requested, requested


def test_the_default_has_one_function():
    options = GuestOptions()
    assert (options.suite, options.devices) == ("trixie", ("connectx6",))


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        ({"suite": "buster"}, "suite: 'buster' is not one of"),
        ({"packages": ("-o",)}, "'-o' is not the name of a Debian package"),
        ({"accelerator": "xen"}, "accel: 'xen' is not one of"),
        ({"modules": Path("/tmp")}, "modules: modules need a kernel"),
        ({"kernel": Path("/nowhere")}, "no kernel /nowhere"),
        ({"kernel": Path(__file__), "modules": Path("/nowhere")}, "no directory /nowhere"),
        ({"share": Path("/nowhere")}, "share: no directory /nowhere"),
        ({"share": Path(__file__)}, "not a directory"),
        ({"out": Path("/nowhere")}, "out: no directory /nowhere"),
        ({"trace": Path("t"), "devices": ()}, "needs a device"),
        ({"devices": ("x",) * 17}, "devices: at most 16"),
        ({"memory_mib": 100}, "memory: at least 512"),
        ({"cpus": 0}, "cpus: 1 to 64"),
        ({"icount": 11, "cpus": 1}, "icount: 0 to 10"),
        ({"icount": 2, "cpus": 2}, "icount needs one processor"),
        ({"icount": 2, "cpus": 1, "accelerator": "kvm"}, "icount: needs emulation, not KVM"),
        ({"hugepages": -1}, "hugepages: at least 0"),
        ({"hugepages": 600}, "huge pages"),
        ({"boot_timeout": 0}, "more than 0 s"),
    ],
)
def test_what_cannot_work_is_refused(choices, message):
    with pytest.raises(LabError, match=message):
        GuestOptions(**choices)


@pytest.mark.parametrize("option", ["trace", "pcap", "record", "dump"])
def test_a_file_to_write_in_a_directory_that_is_not_there(option, tmp_path):
    with pytest.raises(OptionError, match=f"{option}: no directory {tmp_path}/new") as caught:
        GuestOptions(**{option: tmp_path / "new" / "file"})
    assert caught.value.name == option
    assert list(tmp_path.iterdir()) == []
    GuestOptions(**{option: tmp_path / "file"})


def test_a_check_makes_no_directory_and_a_refusal_leaves_none(tmp_path):
    said = {"out": "new/out"}
    check_requested(said, tmp_path)
    for call in (check_requested, requested):
        with pytest.raises(OptionError, match="cpus: 1 to 64"):
            call(said | {"cpus": 0}, tmp_path)
    assert list(tmp_path.iterdir()) == []
    assert requested(said, tmp_path).out == tmp_path / "new" / "out"
    assert (tmp_path / "new" / "out").is_dir()
    check_requested(said, tmp_path)


def test_a_directory_that_cannot_be_made_is_refused_by_the_check(tmp_path):
    (tmp_path / "file").touch()
    for path, why in (("file", "File exists"), ("file/x", "Not a directory")):
        with pytest.raises(OptionError, match=f"out: {tmp_path}/{path} cannot be made: {why}"):
            check_requested({"out": path}, tmp_path)


def test_an_unknown_option_is_an_error_with_near_names():
    with pytest.raises(OptionError, match="no option 'memory' of a guest; near it: memory_mib"):
        option_named("memory")


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("packages", "fio", r"packages: a list is needed, such as \['fio'\]"),
        ("nets", "user", r"nets: a list is needed, such as \['user'\]"),
        ("devices", 5, "devices: a list is needed"),
        ("kernel_arguments", [5], "kernel_args: a list of strings is needed"),
        ("kernel", 5, "kernel: a path or a list of paths is needed"),
        ("cpus", True, "cpus: a whole number is needed"),
        ("boot_timeout", "9", "boot_timeout: a number is needed"),
        ("iommu", "no", "iommu: true or false is needed"),
        ("suite", 13, "suite: a string is needed"),
        ("faults", 5, "faults: a path is needed"),
        ("share", ["a"], "share: a path is needed"),
    ],
)
def test_a_value_of_another_type_is_refused(name, value, why):
    for call in (check_options, check_requested, requested):
        with pytest.raises(OptionError, match=f"^{why}, not "):
            call({name: value})


@pytest.mark.parametrize(
    ("choices", "why"),
    [
        ({"transport": "libvfio-user"}, "vfs: not supported with --transport libvfio-user"),
        ({"arch": "s390x"}, "vfs: only amd64 guests can have virtual functions, not s390x"),
        ({"subnet": "two-leaves"}, "vfs: InfiniBand functions with --subnet have none"),
        ({"devices": ["connectx6,vfs=99"]}, "vfs=99 is not between"),
    ],
)
def test_virtual_functions_are_refused_where_there_are_none(choices, why):
    with pytest.raises(OptionError, match=f"devices: {why}"):
        check_options({"devices": ["connectx6,vfs=2"]} | choices)


def test_all_mistaken_options_are_told_at_once():
    devices = ["cx9,vsf=2", "connectx6dx,vfs=2x,mac=1"]
    wrong = {"devices": devices, "nets": ["foo"], "memory_mib": 1 << 40, "cpus": "x"}
    with pytest.raises(OptionError) as caught:
        check_options(wrong)
    told = [str(error) for error in (caught.value, *caught.value.others)]
    assert [text.partition(":")[0] for text in told] == ["cpus", "devices", "nets", "memory"]
    assert [line.partition(" ")[0] for line in told[1].splitlines()] == [
        "devices:", "'vsf=2'", "vfs='2x'", "mac='1'",
    ]  # fmt: skip


def test_the_constructor_refuses_a_string_for_a_list():
    with pytest.raises(OptionError, match="devices: a list is needed"):
        GuestOptions(devices="connectx6")
