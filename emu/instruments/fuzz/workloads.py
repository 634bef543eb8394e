"""Workloads: shell scripts that run in the guest between binding and unbinding.

Every step has a time limit, may fail, and ends by itself. Live workloads keep the driver bound
between inputs. A User-Mode Linux guest's program does them without starting a process
(:mod:`emu.instruments.coverage.inside.live`), at a tenth of the cost.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType

_ANY, _ETHERNET, _INFINIBAND = "0x", "0x0200", "0x0207"
"""Prefixes of a function's PCI class: any port, Ethernet port, InfiniBand port."""


@dataclass(frozen=True)
class Workload:
    """Work on some functions of a PCI class; on others if the guest has none of it."""

    script: str
    """A shell script; for a live workload, the name of the program's function."""
    pci_class: str = _ANY
    functions: int = 1
    is_live: bool = False


WORKLOADS = MappingProxyType(
    {
        "bind": Workload(":"),
        "probe": Workload("""
            timeout 5 ibv_devinfo -v
            cd /sys/class/infiniband && timeout 5 cat */* */ports/1/* */ports/1/*counters/*
            timeout 3 cat /sys/class/hwmon/*/*
            timeout 3 rdma statistic show
        """),
        "verbs": Workload("""
            pair() {
                timeout 9 "$@" > /dev/null &
                for i in $(seq 40); do
                    grep -q ':4853 .* 0A ' /proc/net/tcp && break
                    kill -0 $! || return
                    sleep 0.1
                done
                timeout 6 "$@" 127.0.0.1 || kill $!
                wait
            }
            pair ibv_rc_pingpong -n 5 -s 9000
        """),
        "ipoib": Workload(
            """
            for path in /sys/class/net/ib*; do
                timeout 5 ip link set ${path##*/} up
                timeout 2 ip address add 10.7.0.1/24 dev ${path##*/}
                timeout 1 ping -c 2 -i 0.2 -W 0.1 -I ${path##*/} -b 10.7.0.255
                timeout 5 ip link set ${path##*/} down
            done
        """,
            _INFINIBAND,
        ),
        "ethernet": Workload(
            """
            ip netns add peer
            n=0
            for path in /sys/class/net/eth*; do
                n=$((n + 1)) name=${path##*/} in=
                [ $n = 1 ] || { timeout 5 ip link set $name netns peer; in='-n peer'; }
                timeout 2 ip $in address add 10.9.0.$n/24 dev $name
                timeout 5 ip $in link set $name up
            done
            timeout 5 ping -c 3 -i 0.1 -W 1 10.9.0.2
            timeout 3 ping -c 1 -W 1 -s 8000 10.9.0.2
            timeout 5 ip netns del peer
        """,
            _ETHERNET,
            2,
        ),
        "ethtool": Workload(
            """
            for path in /sys/class/net/eth* /sys/class/net/ib*; do
                for word in '' -i -S -m -k -g -c -l -x -a -T -P -n -t --show-fec --show-priv-flags
                do
                    timeout 4 ethtool $word ${path##*/}
                done
                timeout 3 ethtool -G ${path##*/} rx 512 tx 512
                timeout 3 ethtool -L ${path##*/} combined 1
                timeout 3 ip link set ${path##*/} mtu 2000
            done
        """,
            _ETHERNET,
        ),
        "devlink": Workload("""
            for words in 'dev info' 'dev param show' 'health show' 'port show' 'dev eswitch show' \\
                'resource show' 'region show'; do
                timeout 4 devlink $words
            done
            for one in $(devlink dev | grep -o '^pci/[^ ]*[0-9]'); do
                timeout 5 devlink health diagnose $one reporter fw
                timeout 8 devlink dev reload $one
            done
        """),
        "live-frames": Workload("frames", _ETHERNET, 2, is_live=True),
        "live-links": Workload("links", _ETHERNET, 1, is_live=True),
        "live-questions": Workload("questions", _ETHERNET, 1, is_live=True),
        "live-ipoib": Workload("frames", _INFINIBAND, 1, is_live=True),
        "live-files": Workload("files", is_live=True),
    }
)

INSTALL = """
cat > /usr/local/bin/fuzz-turn
chmod +x /usr/local/bin/fuzz-turn
sysctl -qw kernel.printk='5 4 1 7'
echo 0 > /sys/bus/pci/drivers_autoprobe
modprobe -a mlx5_core mlx5_ib ib_uverbs ib_ipoib
for file in $(grep -il 0x15b3 /sys/bus/pci/devices/*/vendor); do
    path=${file%/vendor}
    echo "${path##*/} $(cat $path/class)"
done > /run/fuzz-functions
dmesg --clear
"""
"""Loads the modules without probing; standard input is the program ``fuzz-turn``."""

MARK = "mlx5emu: fuzz-turn"
"""Prefix of the log line that starts a turn."""

TURN = """#!/bin/sh
# fuzz-turn reset | fuzz-turn run WORKLOAD
devices=/sys/bus/pci/devices driver=/sys/bus/pci/drivers/mlx5_core
if [ "$1" = reset ]; then
    while read -r slot class; do
        [ -e "$devices/$slot/driver" ] && exit 3
        [ -e /run/fuzz-used ] && ! grep -q $slot /run/fuzz-used && continue
        echo 1 > "$devices/$slot/reset"
    done < /run/fuzz-functions
    echo 1 > /sys/kernel/debug/clear_warn_once
    exit 0
fi
case "$2" in
ABOUT
esac
grep " $class" /run/fuzz-functions > /run/fuzz-used || cat /run/fuzz-functions > /run/fuzz-used
slots=$(head -n $count /run/fuzz-used | cut -d ' ' -f 1)
echo "<2>MARK $2" > /dev/kmsg
for slot in $slots; do
    echo $slot > $driver/bind
done
case "$2" in
CASES
esac > /tmp/fuzz-output 2>&1
for slot in $slots; do
    [ ! -e "$devices/$slot/driver" ] || echo $slot > $driver/unbind
done
dmesg --read-clear
""".replace("MARK", MARK)

SECTIONS = """
for file in /sys/module/*/sections/.text* /sys/module/*/sections/.exit.text; do
    module=${file#/sys/module/}
    echo "${module%%/*} ${file##*/} $(cat $file)"
done 2> /dev/null
"""
"""Lists the code sections of each module. A module's .init.text is freed and may be reused."""


def program() -> str:
    """Return the shell script ``fuzz-turn`` for the guest, with all workloads except live ones."""
    scripts = [(name, one) for name, one in WORKLOADS.items() if not one.is_live]
    cases = "\n".join(f"{name})\n{one.script}\n;;" for name, one in scripts)
    about = "\n".join(
        f"{name}) class={one.pci_class} count={one.functions} ;;" for name, one in scripts
    )
    return TURN.replace("CASES", cases).replace("ABOUT", about)
