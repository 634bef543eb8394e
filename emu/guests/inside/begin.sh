# Applies one boot's options in the guest's root file system: its name, huge pages, shares, the
# host's network, the driver and its functions. busybox's shell runs it: at the end of a boot, or in
# a guest resumed from a saved boot, whose devices have appeared since.

. /run/mlx5emu/config  # written by init.sh, or just now in a resumed guest

busybox=/run/mlx5emu/busybox

fail() {
    echo "mlx5emu: the boot failed: $*" > /dev/console
    exit 1
}

mount() {
    $busybox mount "$@"
}

ip() {
    $busybox ip "$@"
}

if [ -n "$now" ]; then
    # Explains in the kernel's log why the driver was loaded before its functions appeared.
    echo "<6>mlx5emu: resumed from a saved boot" > /dev/kmsg
    $busybox date -s "@$now" > /dev/null
    mount -o remount,rw / || fail "cannot write to the root file system"
    echo 1 > /sys/bus/pci/rescan
fi

$busybox hostname "$hostname"
echo "$hostname" > /etc/hostname

if [ "$hugepages" -gt 0 ]; then
    mount -t hugetlbfs hugetlbfs /dev/hugepages
    # As much memory as that many pages of 2 MiB, and one page at least: an architecture may have no
    # huge pages of that size.
    kib=$($busybox sed -n 's/^Hugepagesize: *\([0-9]*\) kB$/\1/p' /proc/meminfo)
    echo $(((hugepages * 2048 + ${kib:=2048} - 1) / kib)) > /proc/sys/vm/nr_hugepages
fi

cannot_mount() {
    [ "$mode" = try ] || fail "cannot mount the directory $tag: $1"
    echo "<5>mlx5emu: /mnt/$tag is empty: $1" > /dev/kmsg
}

[ -z "$shares" ] || [ -n "$root" ] || modprobe -a 9p 9pnet_virtio
for share in $shares; do
    tag=${share%=*} mode=${share#*=}
    mkdir -p "/mnt/$tag"
    # Writes of the guest reach the host at once, even if the guest then crashes.
    access=ro cache=mmap
    [ "$mode" != rw ] || access=rw cache=none
    if [ -n "$root" ]; then
        eval "directory=\$host_$tag"
        mount -t hostfs -o "$access,$directory" none "/mnt/$tag" || cannot_mount "the kernel needs CONFIG_HOSTFS"
        continue
    fi
    mount -t 9p -o "$access,trans=virtio,version=9p2000.L,msize=512000,cache=$cache" \
        "$tag" "/mnt/$tag" ||
        cannot_mount "the kernel needs CONFIG_9P_FS and CONFIG_NET_9P_VIRTIO"
done

# The card for the host's network is called net0, because eth0 is the adapter's.
if [ "$network" = 1 ]; then
    modprobe virtio_net
    for net in /sys/class/net/*; do
        readlink "$net/device/driver" | grep -q '/virtio_net$' || continue
        ip link set "${net##*/}" name net0
    done
    ip link set net0 up || fail "no network card: the kernel needs CONFIG_VIRTIO_NET"
    ip address add 10.0.2.15/24 dev net0
    ip route add default via 10.0.2.2
    echo nameserver 10.0.2.3 > /etc/resolv.conf
fi

# The kernel reports to QEMU the VMCOREINFO for a file with its memory.
[ "$dump" = 0 ] || modprobe -q qemu_fw_cfg

if [ "$probe" != 0 ] && grep -q 0x15b3 /sys/bus/pci/devices/*/vendor; then
    echo "mlx5emu: loading the mlx5 driver" > /dev/console
    sh /run/mlx5emu/probe.sh "$probe"
fi

echo "mlx5emu: ready" > /dev/console
