"""RoCE of the emulated HCA against rdma_rxe: in one guest, and between two.

In one guest, a function with an Ethernet port, one with InfiniBand and rxe on a dummy link are
measured alternately. Two guests have a server process each. Packets of the HCA use a fabric between
them, those of rxe virtio-net and a socket between the QEMUs. All interfaces have an MTU of 4200.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from figures import Goal, Row, Section, ratio_at_least, ratio_at_most
from machine import Quiet

from booted import guests, perftest, verbs
from booted.guests import Base, Samples
from booted.verbs import RXE, Ends, Test
from emu.guests import Guest

REPEAT = 3
ROCE, IB = "mlx5_0", "mlx5_1"
DEVICE = "connectx6dx"
WITHIN = 1.05
"""Maximum time of RoCE, relative to InfiniBand inside one server process."""

_PATIENCE = 60.0
_SIZES = ((4096, "4 KiB", 10_000), (65536, "64 KiB", 1000), (1 << 20, "1 MiB", 200))
_LATENCY = "ib_write_lat, 2 B, one way"
_RATE = "message rate, write 2 B"
ONE_GUEST = {"ib_write_bw, 1 MiB": ratio_at_least(60), _LATENCY: ratio_at_most(0.5),
              _RATE: ratio_at_least(2)}  # fmt: skip
TWO_GUESTS = {"ib_write_bw, 1 MiB": ratio_at_least(5), _LATENCY: ratio_at_most(1)}
_AT_LEAST, _AT_MOST = ratio_at_least(1 / WITHIN), ratio_at_most(WITHIN)

# The interface of a driver gets an address; the MTU lets a packet of RDMA carry 4 KiB.
_UP = """set -e
modprobe {driver}
for at in /sys/class/net/*/device/driver; do
    case $(readlink $at) in */{driver}) nic=${{at%/device/driver}} nic=${{nic##*/}};; esac
done
ip address add {address}/24 dev $nic
ip link set $nic mtu 4200 up
until ip link show $nic | grep -q LOWER_UP; do sleep 0.1; done
echo $nic
"""


def tests(share: int) -> list[Test]:
    """Return the tests; each sends ``1 / share`` of its messages in one guest."""
    bandwidths = [
        verbs.bandwidth(program, name, size, count // share)
        for program in ("ib_write_bw", "ib_read_bw")
        for size, name, count in _SIZES
    ]
    latency = f"ib_write_lat -F -s 2 -n {5000 // share}"
    rate = f"ib_write_bw -F -s 2 -n {40_000 // share}"
    return [
        *bandwidths,
        Test(_LATENCY, "us", latency, perftest.latency),
        Test(_RATE, "1000/s", rate, perftest.message_rate),
    ]


def measure(base: Base, repeat: int | None, quiet: Quiet) -> list[Section]:
    """Return all three tables, each number measured ``repeat`` times."""
    with guests.booted(base, devices=(DEVICE, "connectx6")) as guest:
        _up(guest, "mlx5_core", "10.8.0.1")
        ends = Ends(guest, guest)
        devices = {
            ROCE: (ends, verbs.gid_index_of(guest, ROCE, "10.8.0.1")), IB: (ends, None),
            RXE: (ends, verbs.make_rxe(guest)),
        }  # fmt: skip
        one = guests.take_turns(repeat or REPEAT, quiet, _takes(tests(1), devices))
    with _two_guests(base) as (server, client):
        for guest, last in ((server, 1), (client, 2)):
            _up(guest, "mlx5_core", f"10.8.0.{last}")
            nic = _up(guest, "virtio_net", f"10.9.0.{last}")
            make = f"modprobe rdma_rxe; rdma link add {RXE} type rxe netdev {nic}"
            guest.run(make, timeout=_PATIENCE).check()
        pairs = {
            device: (Ends(server, client, f"{net}.1"),
                     verbs.gid_index_of(client, device, f"{net}.2"))
            for device, net in ((ROCE, "10.8.0"), (RXE, "10.9.0"))
        }  # fmt: skip
        two = guests.take_turns(repeat or REPEAT, quiet, _takes(tests(5), pairs))
    as_ib = {test.name: _AT_MOST if test.name == _LATENCY else _AT_LEAST for test in tests(1)}
    rxe, between = "in the same boot", "between two guests"
    return [
        Section("roce", f"RoCE, against rdma_rxe {rxe}", _rows(one, RXE, ONE_GUEST), "RoCE", "rxe"),
        Section("roce-ib", f"RoCE, against InfiniBand {rxe}", _rows(one, IB, as_ib), "RoCE", "IB"),
        Section("roce-guests", f"RoCE {between}", _rows(two, RXE, TWO_GUESTS), "RoCE", "rxe"),
    ]


def _takes(
    chosen: Sequence[Test], devices: Mapping[str, tuple[Ends, int | None]]
) -> dict[tuple[str, str], Callable[[], float]]:
    """Return each test on each device, with the index of its GID."""
    return {
        (test.name, device): partial(verbs.sample, ends, test, device, gid)
        for test in chosen
        for device, (ends, gid) in devices.items()
    }


def _rows(samples: Samples, other: str, goals: Mapping[str, Goal]) -> list[Row]:
    return [
        Row(test.name, test.unit, samples[test.name, ROCE], samples[test.name, other],
            goals.get(test.name))
        for test in tests(1)
    ]  # fmt: skip


@contextmanager
def _two_guests(base: Base) -> Iterator[tuple[Guest, Guest]]:
    """Boot two guests with a function each on one fabric, and virtio-net on one socket."""
    with tempfile.TemporaryDirectory() as directory:

        def options(number: int, rest: str) -> dict[str, Any]:
            netdev = f"stream,id=net,addr.type=unix,addr.path={directory}/net,{rest}"
            nic = f"virtio-net-pci,netdev=net,mac=52:54:00:00:00:{number:02}"
            return {
                "devices": (DEVICE,),
                "memory_mib": 1024,
                "server_options": ("--fabric", f"unix:{directory}/fabric"),
                "qemu_arguments": ("-netdev", netdev, "-device", nic),
            }

        with (
            guests.booted(base, **options(1, "server=on")) as server,
            guests.booted(base, **options(2, "server=off,reconnect-ms=500")) as client,
        ):
            yield server, client


def _up(guest: Guest, driver: str, address: str) -> str:
    """Give the interface of a driver an address; return its name."""
    command = _UP.format(driver=driver, address=address)
    return guest.run(command, timeout=_PATIENCE).check().stdout.strip()
