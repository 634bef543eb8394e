# Gives the first adapter an IP address; to be sourced. Sets $adapter, $nic and $address.
# It is IPoIB's on InfiniBand; on Ethernet an MTU of 4200 makes room for RoCE's path MTU of 4096.
address=10.65.0.1

modprobe -a mlx5_ib ib_ipoib
for _ in $(seq 100); do # udev, where a package has brought it, renames what the driver has made
    adapter=$(ls /sys/class/infiniband | head -n 1)
    nic=$(ls "/sys/class/infiniband/$adapter/device/net" 2> /dev/null | head -n 1)
    [ -z "$nic" ] || break
    sleep 0.1
done
if [ "$(cat "/sys/class/net/$nic/type")" = 1 ]; then ip link set "$nic" mtu 4200; fi
ip link set "$nic" up
ip -br addr show "$nic" | grep -q "$address" || ip addr add "$address/24" dev "$nic"
for _ in $(seq 100); do
    ip -br link show "$nic" | grep -q LOWER_UP && break
    sleep 0.1
done
