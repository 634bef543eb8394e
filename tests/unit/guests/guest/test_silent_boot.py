"""How long a boot is awaited whose console stays empty."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from emu.guests import Guest, GuestOptions
from emu.guests.errors import GuestHungError


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

    def awaited(*, is_doubted, console, timeout):
        guest = Guest(GuestOptions(boot_timeout=timeout))
        guest._vm = SimpleNamespace(
            is_doubted=is_doubted, console=console, note_up=lambda: None, stop=lambda: None
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


def test_a_silent_guest_of_a_kvm_that_boots_nothing_is_given_up(boot):
    with pytest.raises(GuestHungError, match=r"empty after 30 s\. Use --accel tcg"):
        boot(is_doubted=True, console="", timeout=180.0)


def test_a_shorter_limit_of_the_user_holds(boot):
    with pytest.raises(GuestHungError, match="not up after 20 s"):
        boot(is_doubted=True, console="", timeout=20.0)
