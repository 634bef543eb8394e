"""How long a boot is awaited whose console stays empty."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from emu.guests import Guest, GuestOptions
from emu.guests.errors import GuestHungError
from emu.guests.image import image as images
from emu.guests.machine import accel, launch, qemu


class BootingChannel:
    """A connection to a guest that is up once it has been awaited for ``seconds``."""

    def __init__(self, seconds):
        self.left = seconds
        self.waited = 0.0

    def wait_ready(self, timeout):
        self.waited += min(timeout, self.left)
        self.left -= timeout
        return "6.12" if self.left <= 0 else None


@pytest.fixture
def boot():
    """Await a boot that takes 100 s; return the release, and the seconds that were awaited."""

    def awaited(*, is_doubted, console, timeout, can_retest=False):
        guest = Guest(GuestOptions(boot_timeout=timeout))
        guest._vm = SimpleNamespace(
            is_doubted=is_doubted,
            can_retest=can_retest,
            console=console,
            note_up=lambda: None,
            stop=lambda: None,
        )
        guest._channel = BootingChannel(100.0)
        with guest._diagnosed():
            guest._wait_ready()
        return guest.kernel_release, guest._channel.waited

    return awaited


@pytest.mark.parametrize(("is_doubted", "console"), [(False, ""), (True, "a"), (False, "a")])
def test_a_boot_may_take_its_time(boot, is_doubted, console):
    assert boot(is_doubted=is_doubted, console=console, timeout=180.0) == ("6.12", 100.0)
    with pytest.raises(GuestHungError, match="not up after 60 s"):
        boot(is_doubted=is_doubted, console=console, timeout=60.0)


@pytest.mark.parametrize("can_retest", [True, False])
def test_a_silent_guest_of_a_kvm_that_boots_nothing_is_given_up(boot, can_retest):
    """The doctor is named if that tests KVM again: no answer that is certain is asked again."""
    with pytest.raises(GuestHungError, match=r"empty after 30 s\. Use --accel tcg") as told:
        boot(is_doubted=True, console="", timeout=180.0, can_retest=can_retest)
    assert ("mlx5emu doctor tests KVM again" in str(told.value)) == can_retest


def test_a_shorter_limit_of_the_user_holds(boot):
    with pytest.raises(GuestHungError, match="not up after 20 s"):
        boot(is_doubted=True, console="", timeout=20.0)


@pytest.mark.parametrize(
    ("accelerator", "answer", "is_verbose", "level"),
    [
        ("kvm", False, False, launch.VERBOSE_LOG_LEVEL),
        ("kvm", True, False, launch.LOG_LEVEL),
        ("kvm", None, False, launch.LOG_LEVEL),
        ("tcg", False, False, launch.LOG_LEVEL),
        ("kvm", True, True, launch.VERBOSE_LOG_LEVEL),
    ],
)
def test_a_doubted_kvm_tells_each_line(
    tmp_path, monkeypatch, accelerator, answer, is_verbose, level
):
    """Otherwise a kernel that boots slowly and well leaves the console as empty as none."""
    image = SimpleNamespace(
        kernel=tmp_path, release="6.12", busybox=b"", root_disk=tmp_path, boot_modules=list
    )
    monkeypatch.setattr(qemu, "ensure", lambda *_: None)
    monkeypatch.setattr(images, "ensure", lambda *_: image)
    monkeypatch.setattr(accel, "choose", lambda *_: accelerator)
    monkeypatch.setattr(accel, "known_answer", lambda _: answer)
    machine = launch.machine_for(GuestOptions(verbose=is_verbose), tmp_path)
    assert machine.kernel_arguments[0] == f"loglevel={level}"
