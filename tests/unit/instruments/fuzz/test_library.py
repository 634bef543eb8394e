"""Plans of examples/findings are tried in fresh guests until what they find comes up."""

from pathlib import Path

import pytest

from emu.guests import GuestOptions
from emu.guests.errors import GuestError
from emu.host.user_error import UserError
from emu.instruments.fuzz import library

FOLDER = Path(__file__).parents[4] / "examples" / "findings"
PANIC = """\
BUG: unable to handle page fault for address: 00000c0600000008
Oops: Oops: 0000 [#1] PREEMPT SMP NOPTI
CPU: 0 UID: 0 PID: 1 Comm: python3 Not tainted 6.12.107+deb13-amd64 #1  Debian 6.12.107-1
RIP: 0010:account_kernel_stack+0x24/0xa0
"""


class Guests:
    """In the place of ``Guest``: each one's log is the next of a list."""

    def __init__(self, logs):
        self.logs = iter(logs)
        self.options = []
        self.ran = []

    def __call__(self, options):
        self.options.append(options)
        self.console = next(self.logs)
        return self

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    control_socket = Path("control")

    def run(self, command, **_):
        self.ran.append(command)
        if "[#1]" in self.console:
            raise GuestError("gone")
        return self

    def check(self):
        return self

    def dmesg(self):
        return self.console


class Control:
    loaded = ()

    def __init__(self, _socket):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def load_plan(self, text):
        Control.loaded = (*Control.loaded, text)


@pytest.fixture
def guests(monkeypatch):
    def use(*logs):
        found = Guests(logs)
        monkeypatch.setattr(library, "Guest", found)
        monkeypatch.setattr(library, "Client", Control)
        seconds = iter(range(0, 100_000, 1000))
        monkeypatch.setattr("emu.instruments.fuzz.library.time.monotonic", seconds.__next__)
        return found

    return use


def test_it_is_tried_until_it_comes_up(guests):
    found, said = guests("nothing", PANIC, "never"), []
    path = FOLDER / "pages-overflow.toml"
    trial = library.reproduce(path, GuestOptions(devices=()), said.append)
    assert trial.is_reproduced
    assert trial.findings[0].title.startswith("BUG: unable to handle")
    assert said == ["pages-overflow: not reproduced in trial 1 of 3"]
    assert found.ran == ["sleep 30"] * 2
    assert [(one.devices, one.probe) for one in found.options] == [(("connectx6-vf",), True)] * 2


def test_it_may_not_come_up(guests):
    guests("nothing", "nothing", "nothing")
    trial = library.reproduce(FOLDER / "pages-overflow.toml", GuestOptions(devices=()), print)
    assert not trial.is_reproduced
    assert trial.missing == (r"\[#1\]",)


def test_a_plan_for_loading_begins_before_the_driver(guests):
    found = guests(PANIC)
    library.reproduce(FOLDER / "no-ports.toml", GuestOptions(devices=()), print, trials=1)
    assert found.options[0].probe is False
    assert found.ran[0] == "modprobe mlx5_ib"


def test_ethernet_has_two_functions_and_traffic(guests):
    found = guests("nothing")
    library.reproduce(
        FOLDER / "packet-at-unknown-stride.toml", GuestOptions(devices=()), print, trials=1
    )
    assert found.options[0].devices == ("connectx6dx",) * 2
    assert found.ran[-1] == "traffic"


def test_a_plan_without_an_expectation_is_refused(tmp_path):
    path = tmp_path / "plan-without.toml"
    path.write_text('[[rule]]\npoint = "load"\naction = "link"\n')
    with pytest.raises(UserError, match="no dmesg"):
        library.reproduce(path, GuestOptions(devices=()), print)
