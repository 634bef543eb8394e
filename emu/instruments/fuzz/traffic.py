"""Installs the program ``traffic``, which plans for faults and findings run in the guest."""

from __future__ import annotations

from typing import Final

from emu.guests import Guest

_PORT: Final = 18515
_ETHERNET_MODELS: Final = ("connectx6dx", "connectx4lx")
_PAIR: Final = r"""#!/bin/sh
# traffic [OPTION...]: a ping-pong of two processes; status and words of the client, then the server
ibv_rc_pingpong -d mlx5_0 -p PORT "$@" > /tmp/server 2>&1 &
server=$!
for i in $(seq 100); do grep -q ':HEX .* 0A ' /proc/net/tcp* && break; sleep 0.05; done
timeout ${SECONDS_TO_TALK:-20} ibv_rc_pingpong -d mlx5_0 -p PORT "$@" 127.0.0.1 2>&1
status=$?
[ $status = 0 ] || kill $server 2>/dev/null
wait $server 2>/dev/null
echo "server: $(tail -n 3 /tmp/server | tr '\n' ' ')"
exit $status
""".replace("PORT", str(_PORT)).replace("HEX", f"{_PORT:04X}")
_ETHERNET: Final = r"""#!/bin/sh
# traffic [-n COUNT] [OPTION...]: pings of the second function, in a namespace of its own
count=10
[ "$1" != -n ] || { count=$2; shift 2; }
if [ -e /sys/class/net/eth1 ]; then
    ip netns add peer 2> /dev/null
    ip link set eth1 netns peer
fi
ip address replace 10.9.0.1/24 dev eth0
ip -n peer address replace 10.9.0.2/24 dev eth1
ip link set eth0 up
ip -n peer link set eth1 up
for i in $(seq 50); do
    grep -qs 1 /sys/class/net/eth0/carrier && ip -n peer link show eth1 | grep -q LOWER_UP && break
    sleep 0.1
done
exec timeout ${SECONDS_TO_TALK:-20} ping -c $count -i 0.1 -W 1 "$@" 10.9.0.2
"""
"""The same for Ethernet functions: status 0 if any reply is received."""


def is_ethernet(model: str) -> bool:
    """Return whether plans for this model need two functions on one segment."""
    return model.startswith(_ETHERNET_MODELS)


def with_traffic(guest: Guest, model: str = "") -> None:
    """Install the program ``traffic`` for a model in a guest.

    Raises CommandFailedError, GuestError.
    """
    install = "cat > /usr/local/bin/traffic; chmod +x /usr/local/bin/traffic"
    program = _ETHERNET if is_ethernet(model) else _PAIR
    guest.run(install, stdin=program.encode()).check()
