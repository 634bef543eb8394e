# Gives the first adapter's network interface an address; to be sourced. Sets $address and $nic.
# It is IPoIB's on InfiniBand; on Ethernet an MTU of 4200 makes room for RoCE's path MTU of 4096.
address=10.65.0.1

modprobe ib_ipoib
nic=$(ls /sys/class/infiniband/mlx5_0/device/net | head -n 1)
case $(cat "/sys/class/net/$nic/type") in 1) ip link set "$nic" mtu 4200 ;; esac
ip link set "$nic" up
ip -br addr show "$nic" | grep -q "$address" || ip addr add "$address/24" dev "$nic"
for _ in $(seq 100); do
    ip -br link show "$nic" | grep -q LOWER_UP && break
    sleep 0.1
done
