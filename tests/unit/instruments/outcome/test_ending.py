"""How a run has ended, as a finding; slab growth."""

import pytest

from emu.guests.errors import (
    CommandTimeoutError,
    GuestError,
    GuestHungError,
    GuestPanicError,
    GuestStoppedError,
    ServerError,
)
from emu.instruments.outcome import EX_DATAERR, Finding, Kind, growth, merged, of_error, of_status
from emu.instruments.outcome.slab import MIN_GROWTH


@pytest.mark.parametrize(
    ("error", "kind", "title"),
    [
        (
            GuestPanicError("the guest panicked: Fatal exception in interrupt"),
            Kind.PANIC,
            "kernel panic: Fatal exception in interrupt",
        ),
        (GuestHungError("silent"), Kind.HANG, "no response from the guest"),
        (GuestStoppedError("gone"), Kind.LOST, "lost connection to the guest"),
        (CommandTimeoutError("late"), Kind.TIMEOUT, "command timed out"),
        (ServerError("gone"), Kind.SERVER, "device server ended"),
        (GuestError("else"), Kind.LOST, "lost connection to the guest"),
    ],
)
def test_an_error_of_the_lab_is_a_finding(error, kind, title):
    found = of_error(error)
    assert (found.kind, found.title) == (kind, title)


def test_only_one_status_means_wrong_data():
    assert [of_status(status) for status in (0, 1, 137)] == [None] * 3
    assert of_status(EX_DATAERR).kind is Kind.CORRUPTION


def slabinfo(**objects):
    head = "slabinfo - version: 2.1\n# name            <active_objs> <num_objs> <objsize>\n"
    lines = "".join(
        f"{name:17} {number:6} {number:6} 256 16 1\n" for name, number in objects.items()
    )
    return head + lines


def test_a_cache_that_grows_in_every_turn_leaks():
    before = slabinfo(mlx5_fs_ftes=10, kmalloc_64=1000, gone=5, steady=7)
    after = slabinfo(mlx5_fs_ftes=1410, kmalloc_64=1999, new=5000, steady=7)
    (found,) = growth(before, after, repetitions=600)
    assert (found.kind, found.title) == (Kind.LEAK, "slab growth: mlx5_fs_ftes")


def test_what_processors_keep_free_is_no_leak():
    assert (
        growth(slabinfo(vma_lock=10), slabinfo(vma_lock=10 + MIN_GROWTH - 1), repetitions=1) == ()
    )


@pytest.mark.hostile
def test_what_is_no_slabinfo_has_no_growth():
    assert growth("", "\x00 9 9\nname x\n" + "a " + "9" * 5000, repetitions=1) == ()
    assert growth(slabinfo(a=1), slabinfo(a=9000), repetitions=0) == ()


def test_a_crash_explains_that_the_guest_has_gone():
    crash, lost = Finding(Kind.OOPS, "an oops"), Finding(Kind.LOST, "gone")
    warning, leak = Finding(Kind.WARNING, "a warning"), Finding(Kind.LEAK, "a leak")
    assert merged([warning, crash], [lost, leak]) == (warning, crash, leak)
    assert merged([warning], [lost, warning]) == (warning, lost)
