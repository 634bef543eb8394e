#!/bin/busybox sh
# First process of the guest, in the initramfs: mounts the root file system, loads the driver,
# then hands over to the program that runs the host's commands, or to a shell on the console.
# systemd is left out: a guest that does one thing is ready several seconds sooner without it.

. /mlx5emu/config  # release probe dump shares network hugepages shell; for a shell: term rows columns;
# where the kernel is a process of the host: root port host_modules host_share host_out

/bin/busybox --install -s /bin
export PATH=/bin

fail() {
    echo "mlx5emu: $*"
    poweroff -f
}

mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev

while read -r module; do
    insmod "/modules/$module" || echo "mlx5emu: cannot load $module"
done < /modules/order

# The disk with a serial number: a user's disks stand anywhere between ours.
disk() {
    for serial in /sys/block/vd*/serial; do
        [ "$(cat "$serial")" != "$1" ] || basename "$(dirname "$serial")"
    done
}

mkdir -p /new
mount -t ext4 -o noatime "${root:-/dev/$(disk root)}" /new || fail "cannot mount the root file system"
modules=$(disk modules)
if [ -n "$modules" ]; then
    mkdir -p "/new/usr/lib/modules/$release"
    mount -t ext4 -o ro "/dev/$modules" "/new/usr/lib/modules/$release" ||
        fail "cannot mount the modules"
elif [ -n "$host_modules" ]; then
    mkdir -p "/new/usr/lib/modules/$release"
    mount -t hostfs -o "ro,$host_modules" none "/new/usr/lib/modules/$release" ||
        fail "cannot mount the modules"
fi

mount --move /proc /new/proc
mount --move /sys /new/sys
mount --move /dev /new/dev
mkdir -p /new/dev/pts /new/dev/shm /new/dev/hugepages
mount -t devpts -o gid=5,mode=620 devpts /new/dev/pts
mount -t tmpfs tmpfs /new/dev/shm
mount -t tmpfs tmpfs /new/run
mount -t tmpfs tmpfs /new/tmp
mount -t debugfs debugfs /new/sys/kernel/debug
ln -s /proc/self/fd /new/dev/fd
ln -s /proc/self/fd/0 /new/dev/stdin
ln -s /proc/self/fd/1 /new/dev/stdout
ln -s /proc/self/fd/2 /new/dev/stderr
cp -r /mlx5emu /bin/busybox /new/run/
mkdir -p /new/run/lock
mv /new/run/busybox /new/run/mlx5emu/

hostname guest
ip link set lo up
if [ "$hugepages" -gt 0 ]; then
    mount -t hugetlbfs hugetlbfs /new/dev/hugepages
    echo "$hugepages" > /new/proc/sys/vm/nr_hugepages
fi

[ -z "$shares" ] || [ -n "$root" ] || chroot /new modprobe -a 9p 9pnet_virtio
for share in $shares; do
    tag=${share%=*} mode=${share#*=}
    mkdir -p "/new/mnt/$tag"
    if [ -n "$root" ]; then
        eval "directory=\$host_$tag"
        mount -t hostfs -o "$mode,$directory" none "/new/mnt/$tag" ||
            fail "cannot mount the directory $tag"
        continue
    fi
    # What the guest has written is on the host at once, whatever becomes of the guest.
    cache=none
    [ "$mode" = rw ] || cache=mmap
    mount -t 9p -o "$mode,trans=virtio,version=9p2000.L,msize=512000,cache=$cache" \
        "$tag" "/new/mnt/$tag" ||
        fail "cannot mount the directory $tag: the kernel needs CONFIG_9P_FS and CONFIG_NET_9P_VIRTIO"
done

# The card for the host's network is called net0, as eth0 is the adapter's.
if [ "$network" = 1 ]; then
    chroot /new modprobe virtio_net
    for net in /new/sys/class/net/*; do
        readlink "$net/device/driver" | grep -q '/virtio_net$' || continue
        ip link set "${net##*/}" name net0
    done
    ip link set net0 up || fail "no network card: the kernel needs CONFIG_VIRTIO_NET"
    ip address add 10.0.2.15/24 dev net0
    ip route add default via 10.0.2.2
    echo nameserver 10.0.2.3 > /new/etc/resolv.conf
fi

# The kernel tells QEMU what a file with its memory has to say of it.
[ "$dump" = 0 ] || chroot /new modprobe -q qemu_fw_cfg

if [ "$probe" != 0 ] && grep -q 0x15b3 /new/sys/bus/pci/devices/*/vendor; then
    echo "mlx5emu: loading the mlx5 driver"
    chroot /new sh /run/mlx5emu/probe.sh "$probe"
fi

echo "mlx5emu: ready"
if [ "$shell" = 1 ]; then
    exec switch_root /new /run/mlx5emu/busybox sh /run/mlx5emu/shell.sh
fi
exec switch_root /new /usr/bin/python3 -I -S -c "
import sys
sys.path.insert(0, '/run/mlx5emu')
from emu.guests.inside.runner import main
main('$port')"
