#!/bin/sh
# IP over InfiniBand between the two functions, one of them in a network namespace of its own:
# a file over TCP. Status 65: other data arrive.
cd "$(mktemp -d)" || exit
modprobe ib_ipoib
for number in 0 1; do
    until nic=$(ls "/sys/class/infiniband/mlx5_$number/device/net" 2> /dev/null) && [ "$nic" ]; do
        sleep 0.1
    done
    eval "nic$number=\$nic"
done
ip netns add peer
ip link set "$nic1" netns peer
ip address add 10.66.0.1/24 dev "$nic0"
ip netns exec peer ip address add 10.66.0.2/24 dev "$nic1"
ip link set "$nic0" up
ip netns exec peer ip link set "$nic1" up
ping -c 1 -w 20 10.66.0.2 > /dev/null || { echo "no answer to a ping" >&2; exit 1; }
head -c 4000000 /dev/urandom > sent
ip netns exec peer python3 -c '
import socket, sys
peer, _ = socket.create_server(("10.66.0.2", 5000)).accept()
while data := peer.recv(1 << 16):
    sys.stdout.buffer.write(data)' > received &
until ip netns exec peer ss -Hltn 'sport = :5000' | grep -q .; do sleep 0.1; done
busybox nc 10.66.0.2 5000 < sent || exit 1
wait $!
[ "$(stat -c %s received)" = 4000000 ] || { echo "the connection ended early" >&2; exit 1; }
cmp sent received || exit 65
echo "ipoib: 4 MB are the same"
