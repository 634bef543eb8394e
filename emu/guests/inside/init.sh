#!/bin/busybox sh
# First process of the guest, in the initramfs: mounts the root file system and applies this boot's
# options (begin.sh). It then executes the program that runs the host's commands, or a shell on the
# console. systemd is not started: a guest is ready several seconds sooner without it. A saved boot
# (emu.guests.machine.saved) has the driver in memory, and no device yet; each guest resumed from it
# runs begin.sh itself.

. /mlx5emu/config  # release probe parked dump shares network hugepages hostname shell; for a shell:
# term rows columns; where the kernel is a process of the host: root port host_modules host_share
# host_out

/bin/busybox --install -s /bin
export PATH=/bin

fail() {
    echo "mlx5emu: the boot failed: $*"
    poweroff -f
}

mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev

while read -r module; do
    insmod "/modules/$module" || echo "mlx5emu: cannot load $module"
done < /modules/order

# Finds a disk by its serial number, because a user's disks may precede ours.
disk() {
    for serial in /sys/block/vd*/serial; do
        [ "$(cat "$serial")" != "$1" ] || basename "$(dirname "$serial")"
    done
}

# The configuration of a kernel file is not always known before its boot.
loose() {
    [ -s /modules/order ] || [ -n "$root" ] ||
        echo ": the kernel has no disk or no ext4 built in; --modules names its modules"
}

mkdir -p /new
# A saved boot's writes to its disk would be lost.
access=rw
[ "$parked" != 1 ] || access=ro
mount -t ext4 -o "$access,noatime" "${root:-/dev/$(disk root)}" /new ||
    fail "cannot mount the root file system$(loose)"
modules=$(disk modules)
if [ -n "$modules" ]; then
    [ "$parked" != 1 ] || mount -t tmpfs tmpfs /new/usr/lib/modules
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
chroot /new modprobe -q configfs  # a module in Debian's kernels
for mounted in configfs:config tracefs:tracing; do
    [ ! -d "/new/sys/kernel/${mounted#*:}" ] ||
        mount -t "${mounted%:*}" "${mounted%:*}" "/new/sys/kernel/${mounted#*:}"
done
[ ! -d /new/sys/fs/bpf ] || mount -t bpf bpf /new/sys/fs/bpf
ln -s /proc/self/fd /new/dev/fd
ln -s /proc/self/fd/0 /new/dev/stdin
ln -s /proc/self/fd/1 /new/dev/stdout
ln -s /proc/self/fd/2 /new/dev/stderr
cp -r /mlx5emu /bin/busybox /new/run/
mkdir -p /new/run/lock
mv /new/run/busybox /new/run/mlx5emu/

ip link set lo up

serve() {
    exec switch_root /new /usr/bin/python3 -I -S -c "
import sys
sys.path.insert(0, '/run/mlx5emu')
from emu.guests.inside.runner import main
main($1)"
}

if [ "$parked" = 1 ]; then
    [ "$probe" = 0 ] || chroot /new sh /run/mlx5emu/load.sh
    chroot /new modprobe -aq 9p 9pnet_virtio  # for shares, which many guests have
    serve is_parked=True
fi

# begin.sh reports its own errors, and ends the guest.
chroot /new /run/mlx5emu/busybox sh /run/mlx5emu/begin.sh || poweroff -f
if [ "$shell" = 1 ]; then
    exec switch_root /new /run/mlx5emu/busybox sh /run/mlx5emu/shell.sh
fi
serve "'$port'"
