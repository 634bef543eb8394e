# Loads the mlx5 driver, and binds it to the functions without a driver. Runs in the guest's root
# file system: while booting, or later with --no-probe. With "held", the driver is loaded, and binds
# no function before the next run of this script.

autoprobe=/sys/bus/pci/drivers_autoprobe
if [ "$1" = held ]; then
    echo 0 > $autoprobe
else
    echo 1 > $autoprobe
fi

# A saved boot has loaded it already; this check is faster than another modprobe.
[ -d /sys/module/rdma_ucm ] || sh /run/mlx5emu/load.sh
[ "$1" != held ] || exit 0
for function in /sys/bus/pci/devices/*; do
    read -r vendor < "$function/vendor"
    [ "$vendor" = 0x15b3 ] && [ ! -e "$function/driver" ] || continue
    echo "${function##*/}" > /sys/bus/pci/drivers_probe
done

# Like a network manager: set the adapter's Ethernet interfaces up; they have carrier soon.
for net in /sys/class/net/*; do
    [ "$(cat "$net/type")" = 1 ] && grep -qs 0x15b3 "$net/device/vendor" || continue
    ip link set "${net##*/}" up || continue
    for _ in 1 2 3 4 5 6 7 8 9 10; do
        grep -qs 1 "$net/carrier" && break
        sleep 0.1
    done
done
