# Gives the first adapter an IP address over InfiniBand; to be sourced. Sets $address.
address=10.65.0.1

modprobe ib_ipoib
ip link set ib0 up
ip -br addr show ib0 | grep -q "$address" || ip addr add "$address/24" dev ib0
for _ in $(seq 100); do
    ip -br link show ib0 | grep -q LOWER_UP && break
    sleep 0.1
done
