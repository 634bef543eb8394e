"""QEMU's command line."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import pytest

import emu.guests
from emu.guests.errors import LabError
from emu.guests.machine import launch
from emu.guests.machine.command_line import Machine, SharedDirectory, arguments
from emu.guests.machine.qemu import Qemu
from emu.guests.machine.routing import REPLY_TIMEOUT_MS

QEMU = Qemu(("ld.so", "--library-path", "/l", "/q/qemu-system-x86_64", "-L", "/f"), (11, 1, 3), "x")


@pytest.fixture
def line():
    """The command line of a machine with some choices."""

    def build(**choices):
        parts = {
            "qemu": QEMU,
            "accelerator": "tcg",
            "kernel": Path("/k/vmlinux"),
            "initrd": Path("/w/initrd"),
        }
        return arguments(Machine(**parts | choices))

    return build


def after(words, option):
    return [words[at + 1] for at, word in enumerate(words) if word == option]


def test_one_that_goes_on_waits_and_has_numbers_of_its_own(line):
    assert "-incoming" not in line()
    assert after(line(is_resumed=True), "-incoming") == ["defer"]
    assert "vmgenid,guid=auto" in after(line(is_resumed=True), "-device")


def test_devices_of_one_guest_follow_those_of_all(line):
    """So they have the same slots in a guest that goes on from a saved boot as in any other."""
    of_all = {"disks": (Path("/r"),), "port": Path("/w/port")}
    own = {
        "functions": (Path("/w/f"),),
        "network": True,
        "shares": (SharedDirectory("share", Path("/s")),),
    }
    on_bus = [
        [word for word in after(words, "-device") if "pci" in word]
        for words in (line(**of_all), line(**of_all, **own))
    ]
    assert on_bus[1][: len(on_bus[0])] == on_bus[0]
    assert len(on_bus[1]) == len(on_bus[0]) + 4


def test_the_program_comes_first_with_its_loader(line):
    assert line()[: len(QEMU.command)] == list(QEMU.command)


def test_emulated_and_hardware_processors(line):
    assert after(line(), "-accel") == ["tcg,thread=multi"]
    assert after(line(), "-cpu") == ["max"]
    words = line(accelerator="kvm", cpus=4)
    assert (after(words, "-accel"), after(words, "-cpu")) == (["kvm"], ["host"])
    assert after(words, "-smp") == ["4"]


def test_instructions_are_counted_by_one_thread(line):
    assert "-icount" not in line()
    counted = line(icount=3, cpus=1)
    assert after(counted, "-icount") == ["shift=3"]
    assert after(counted, "-accel") == ["tcg,thread=single"]


def test_memory_is_shared_with_the_servers(line):
    words = line(memory_mib=1024)
    assert after(words, "-object") == ["memory-backend-memfd,id=memory,size=1024M,share=on"]
    assert "memory-backend=memory" in after(words, "-machine")[0]


def test_a_panic_that_is_waited_for_stops_the_machine(line):
    words = line(control=Path("/w/qmp"), events=Path("/w/events"), gdb=Path("/w/gdb,1"))
    assert after(words, "-qmp") == ["unix:/w/qmp,server=off", "unix:/w/events,server=off"]
    assert after(words, "-action") == ["reboot=shutdown", "shutdown=pause"]
    assert after(words, "-gdb") == ["unix:/w/gdb,,1,server=on,wait=off"]
    assert after(line(), "-gdb") == []


def test_every_function_has_a_root_port_of_its_own(line):
    words = line(functions=(Path("/w/function0"), Path("/w/function1")))
    *devices, _, _ = after(words, "-device")
    assert devices[0::2] == [
        "pcie-root-port,id=port0,chassis=1,slot=1",
        "pcie-root-port,id=port1,chassis=2,slot=2",
    ]
    for number, device in enumerate(map(json.loads, devices[1::2])):
        assert device == {
            "driver": "vfio-user-pci",
            "id": f"function{number}",
            "bus": f"port{number}",
            "socket": {"type": "unix", "path": f"/w/function{number}"},
            "x-msg-timeout": REPLY_TIMEOUT_MS,
        }


def test_virtual_functions_are_behind_the_root_port_of_their_physical_one(line):
    vfs = tuple(Path(f"/w/function0.vf{number}") for number in range(9))
    words = line(functions=(Path("/w/function0"), Path("/w/function1")), vfs=(vfs, ()))
    *devices, _, _ = after(words, "-device")
    ports = [word for word in devices if word.startswith("pcie-root-port")]
    assert ports == [
        "pcie-root-port,id=port0,chassis=1,slot=1,pref64-reserve=41M",
        "pcie-root-port,id=port1,chassis=2,slot=2",
    ]
    made = [json.loads(word) for word in devices if word.startswith("{")]
    assert [one["id"] for one in made[:3]] == ["function0", "function0vf0", "function0vf1"]
    assert [one["bus"] for one in made] == ["port0"] * 10 + ["port1"]
    assert [one.get("addr") for one in made] == [
        *(f"0.{function}" for function in range(8)), "1.0", "1.1", None,
    ]  # fmt: skip
    assert [at for at, one in enumerate(made) if "multifunction" in one] == [0, 8]
    assert made[9]["socket"]["path"] == "/w/function0.vf8"


def test_disks_are_never_written(line):
    drives = after(line(disks=(Path("/c/a,b.ext4"), Path("/w/m.ext4"))), "-drive")
    assert all("snapshot=on" in drive and "format=raw" in drive for drive in drives)
    assert drives[0].endswith("file=/c/a,,b.ext4")


def test_disks_are_known_by_their_serials(line):
    """The guest's init looks for these, as a user's disks may come before."""
    disks = [
        word for word in after(line(disks=(Path("/r"), Path("/m"))), "-device") if "blk" in word
    ]
    assert [disk.rpartition("serial=")[2] for disk in disks] == ["root", "modules"]
    init = (Path(emu.guests.__file__).parent / "inside" / "init.sh").read_text()
    assert "$(disk root)" in init
    assert "$(disk modules)" in init


def test_a_share_is_read_only_and_may_have_a_comma(line):
    (option,) = after(line(shares=(SharedDirectory("share", Path("/home/a,b")),)), "-fsdev")
    assert option == "local,id=share,path=/home/a,,b,security_model=none,readonly=on"
    assert after(line(), "-fsdev") == []


def test_what_comes_back_is_written_by_the_guest(line):
    shares = (
        SharedDirectory("share", Path("/s")),
        SharedDirectory("out", Path("/o"), writable=True),
    )
    words = line(shares=shares)
    assert after(words, "-fsdev")[1] == "local,id=out,path=/o,security_model=none"
    assert after(words, "-device")[-3] == "virtio-9p-pci,fsdev=out,mount_tag=out"


def test_what_roots_guest_makes_is_not_the_hosts_as_it_is(line):
    words = line(shares=(SharedDirectory("out", Path("/o"), writable=True, mapped=True),))
    assert "security_model=mapped-xattr,fmode=0644,dmode=0755" in after(words, "-fsdev")[0]


@pytest.mark.parametrize(("uid", "mapped"), [(0, True), (1000, False)])
def test_only_root_has_its_shares_mapped(tmp_path, monkeypatch, uid, mapped):
    monkeypatch.setattr(os, "geteuid", lambda: uid)
    assert launch._mapped(tmp_path) is mapped


def test_root_needs_extended_attributes(tmp_path, monkeypatch):
    def refuse(*_):
        raise OSError(errno.EOPNOTSUPP, "Operation not supported")

    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(os, "setxattr", refuse)
    with pytest.raises(LabError, match="no extended attributes"):
        launch._mapped(tmp_path)


def test_a_network_card_is_there_when_asked_for(line):
    assert "-netdev" not in line()
    assert after(line(network=True), "-netdev") == ["user,id=network"]


def test_an_iommu_comes_before_all_devices(line):
    assert not [word for word in line() if "iommu" in word]
    words = line(iommu=True, functions=(Path("/w/f"),), port=Path("/w/port"))
    assert after(words, "-device")[0] == "intel-iommu,caching-mode=on"
    (kernel,) = after(words, "-append")
    assert kernel.endswith(" intel_iommu=on iommu=pt")


def test_kernel_arguments_of_the_user_come_last(line):
    (words,) = after(line(kernel_arguments=("loglevel=7", "panic=0")), "-append")
    assert words.startswith("console=ttyS0 panic=-1 ")
    assert words.endswith(" loglevel=7 panic=0")


def test_channels_are_there_when_wanted(line):
    assert after(line(), "-chardev") == ["stdio,id=console,mux=on,signal=off"]
    words = line(control=Path("/w/qmp"), port=Path("/w/port"), console_log=Path("/l/c.log"))
    assert after(words, "-chardev") == [
        "stdio,id=console,mux=on,signal=off,logfile=/l/c.log",
        "socket,id=port,path=/w/port,server=off",
    ]
    assert after(words, "-qmp") == ["unix:/w/qmp,server=off"]


def test_extra_arguments_come_last(line):
    assert line(extra=("-device", "intel-iommu"))[-2:] == ["-device", "intel-iommu"]
