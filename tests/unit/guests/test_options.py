"""What a guest can be asked to be, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from emu.guests import GuestOptions, LabError


def test_the_default_has_one_function():
    options = GuestOptions()
    assert (options.suite, options.devices) == ("trixie", ("connectx6",))


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        ({"suite": "buster"}, "no guest suite 'buster'"),
        ({"packages": ("-o",)}, "'-o' is not the name of a Debian package"),
        ({"accelerator": "xen"}, "no accelerator 'xen'"),
        ({"modules": Path("/tmp")}, "--modules is for --kernel"),
        ({"kernel": Path("/nowhere")}, "no kernel /nowhere"),
        ({"kernel": Path(__file__), "modules": Path("/nowhere")}, "no directory /nowhere"),
        ({"share": Path("/nowhere")}, "no directory /nowhere to share"),
        ({"share": Path(__file__)}, "no directory"),
        ({"out": Path("/nowhere")}, "no directory /nowhere for what comes back"),
        ({"trace": Path("t"), "devices": ()}, "nothing to trace"),
        ({"devices": ("x",) * 17}, "at most 16 devices"),
        ({"memory_mib": 100}, "at least 512 MiB"),
        ({"cpus": 0}, "1 to 64 processors"),
        ({"icount": 11, "cpus": 1}, "icount: 0 to 10"),
        ({"icount": 2, "cpus": 2}, "icount is for one processor"),
        ({"icount": 2, "cpus": 1, "accelerator": "kvm"}, "not for KVM"),
        ({"hugepages": -1}, "huge pages"),
        ({"hugepages": 600}, "huge pages"),
        ({"boot_timeout": 0}, "more than 0 s"),
    ],
)
def test_what_cannot_work_is_refused(choices, message):
    with pytest.raises(LabError, match=message):
        GuestOptions(**choices)
