"""Memory keys in use: registration and NVMe over RDMA, compared with rdma_rxe in the same boot.

NVMe uses a key for every command: fast registration, local and remote invalidation. Both adapters
serve the same memory disk in the same guest and are measured alternately.
"""

from __future__ import annotations

import json
from functools import partial

from figures import Row, Section, ratio_at_least, ratio_at_most
from machine import Quiet

from booted import guests, verbs
from booted.guests import Base
from emu.guests import Guest

REPEAT = 3
REGION_MIB = 1024
GUEST_MIB = 3072
RUN_SECONDS = 3
TIMEOUT = 120.0

_ADDRESSES = {verbs.OURS: "10.65.0.1", verbs.RXE: "10.9.0.1"}
_START = """set -e
modprobe -a ib_ipoib nvmet_rdma nvme_rdma
modprobe brd rd_nr=1 rd_size=131072
ip link set ib0 up
ip addr add 10.65.0.1/24 dev ib0
until ip -br link show ib0 | grep -q LOWER_UP; do sleep 0.1; done
mountpoint -q /sys/kernel/config || mount -t configfs none /sys/kernel/config
cd /sys/kernel/config/nvmet
"""
_TARGET = """
mkdir -p subsystems/{name}/namespaces/1 ports/{port}
echo 1 > subsystems/{name}/attr_allow_any_host
echo /dev/ram0 > subsystems/{name}/namespaces/1/device_path
echo 1 > subsystems/{name}/namespaces/1/enable
echo rdma > ports/{port}/addr_trtype
echo ipv4 > ports/{port}/addr_adrfam
echo {address} > ports/{port}/addr_traddr
echo 4420 > ports/{port}/addr_trsvcid
ln -s "$PWD/subsystems/{name}" ports/{port}/subsystems/{name}
nvme connect --transport rdma --traddr {address} --trsvcid 4420 --nqn {name} > /dev/null
until [ -b /dev/nvme{index}n1 ]; do sleep 0.1; done
"""
_FIO = (
    "fio --name=bench --filename=/dev/nvme{index}n1 --rw=randread --bs={kib}k --iodepth={depth}"
    " --ioengine=libaio --direct=1 --time_based --runtime={seconds} --output-format=json"
)
_REGISTER = f"ibv_reg_mr, {REGION_MIB} MiB"
_READS = (
    ("nvme-rdma, read 4 KiB, depth 1", "1/s", 4, 1, 1.0),
    ("nvme-rdma, read 4 KiB, depth 32", "1/s", 4, 32, 2.0),
    ("nvme-rdma, read 128 KiB, depth 4", "MiB/s", 128, 4, 6.0),
)
"""Name, unit, KiB of a read, reads in flight, and the goal: a ratio."""


def measure(base: Base, repeat: int | None, quiet: Quiet) -> list[Section]:
    """Measure everything on both adapters alternately, ``repeat`` times."""
    options = {"devices": (verbs.DEVICE,), "memory_mib": GUEST_MIB}
    with guests.booted(base, **options) as guest:
        verbs.make_rxe(guest)
        start_storage(guest)
        takes = {}
        for index, device in enumerate(_ADDRESSES):
            takes[_REGISTER, device] = partial(register, guest, device)
            for name, unit, kib, depth, _ in _READS:
                takes[name, device] = partial(fio, guest, index, unit, kib, depth)
        samples = guests.take_turns(repeat or REPEAT, quiet, takes)
    kinds = [(_REGISTER, "ms", ratio_at_most(1.0))]
    kinds += [(name, unit, ratio_at_least(goal)) for name, unit, _, _, goal in _READS]
    rows = [
        Row(name, unit, samples[name, verbs.OURS], samples[name, verbs.RXE], goal)
        for name, unit, goal in kinds
    ]
    title = "Memory keys at work, against rdma_rxe"
    return [Section("keys", title, rows, "emulated HCA", "rxe")]


def start_storage(guest: Guest) -> None:
    """Set up a target and a host per adapter: /dev/nvme0n1 is ours, /dev/nvme1n1 is rxe's."""
    targets = [
        _TARGET.format(name=device, port=index + 1, address=address, index=index)
        for index, (device, address) in enumerate(_ADDRESSES.items())
    ]
    guest.run(_START + "".join(targets), timeout=TIMEOUT).check()


def register(guest: Guest, device: str) -> float:
    """Return the milliseconds of one registration."""
    (seconds,) = guests.run_inside(guest, "reg_mr.py", device, REGION_MIB, 1, timeout=TIMEOUT)
    return float(seconds) * 1000


def fio(guest: Guest, index: int, unit: str, kib: int, depth: int) -> float:
    """Return reads, or MiB, per second, for reads of ``kib`` KiB with ``depth`` in flight."""
    command = _FIO.format(index=index, kib=kib, depth=depth, seconds=RUN_SECONDS)
    answer = json.loads(guest.run(command, timeout=TIMEOUT).check().stdout)
    rate = float(answer["jobs"][0]["read"]["iops"])
    return rate * kib / 1024 if unit == "MiB/s" else rate
