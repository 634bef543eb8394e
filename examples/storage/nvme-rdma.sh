#!/bin/sh
# NVMe over RDMA: the kernel's target and host, connected through the adapter, inside one guest:
#   mlx5emu run [--device connectx6dx] --share examples/storage -- sh /mnt/share/nvme-rdma.sh
# or between two whose interfaces are up, with the address of the first:
#   sh nvme-rdma.sh target 10.0.0.1      in the first one
#   sh nvme-rdma.sh host 10.0.0.1        in the second one
#   sh nvme-rdma.sh remove 10.0.0.1      in the first one: no target any more
# Uses fast registration, local invalidation and SEND with invalidate; each write is verified.
set -eu
part=${1:-all}
if [ $# -gt 1 ]; then address=$2; else . "$(dirname "$0")/address.sh"; fi
configfs=/sys/kernel/config/nvmet
name=mlx5emu

start_target() {
    modprobe -a nvmet_rdma loop
    mountpoint -q /sys/kernel/config || mount -t configfs none /sys/kernel/config
    truncate -s 64M /tmp/namespace
    disk=$(losetup --find --show /tmp/namespace)
    mkdir -p "$configfs/subsystems/$name/namespaces/1" "$configfs/ports/1"
    echo 1 > "$configfs/subsystems/$name/attr_allow_any_host"
    echo "$disk" > "$configfs/subsystems/$name/namespaces/1/device_path"
    echo 1 > "$configfs/subsystems/$name/namespaces/1/enable"
    echo rdma > "$configfs/ports/1/addr_trtype"
    echo ipv4 > "$configfs/ports/1/addr_adrfam"
    echo "$address" > "$configfs/ports/1/addr_traddr"
    echo 4420 > "$configfs/ports/1/addr_trsvcid"
    ln -s "$configfs/subsystems/$name" "$configfs/ports/1/subsystems/$name"
}

stop_target() {
    disk=$(cat "$configfs/subsystems/$name/namespaces/1/device_path")
    rm "$configfs/ports/1/subsystems/$name"
    rmdir "$configfs/ports/1" "$configfs/subsystems/$name/namespaces/1" "$configfs/subsystems/$name"
    losetup --detach "$disk"
    modprobe -r nvmet_rdma
}

verify() {
    fio --name="$1" --filename=/dev/nvme0n1 --rw=randwrite --bs="$1" --size="$2" --iodepth=4 \
        --ioengine=libaio --direct=1 --verify=crc32c --do_verify=1 --output=/tmp/fio.log ||
        { cat /tmp/fio.log; exit 1; }
    echo "nvme-rdma: $2 in blocks of $1 written and verified"
}

use_as_host() {
    modprobe nvme_rdma
    nvme connect --transport rdma --traddr "$address" --trsvcid 4420 --nqn "$name" > /dev/null
    for _ in $(seq 50); do [ -b /dev/nvme0n1 ] && break; sleep 0.1; done
    verify 4k 2m
    verify 256k 16m

    mkfs.ext4 -q /dev/nvme0n1
    mkdir -p /tmp/mounted
    mount /dev/nvme0n1 /tmp/mounted
    cp -r /usr/share/doc/rdma-core /tmp/mounted/tree
    umount /tmp/mounted
    mount /dev/nvme0n1 /tmp/mounted
    diff -r /usr/share/doc/rdma-core /tmp/mounted/tree
    echo "nvme-rdma: a tree copied to ext4 is the same after mounting again"
    umount /tmp/mounted
    nvme disconnect --nqn "$name"
    modprobe -r nvme_rdma
}

case $part in
target) start_target ;;
host) use_as_host ;;
remove) stop_target ;;
all)
    start_target
    use_as_host
    stop_target
    echo "nvme-rdma: unloaded"
    ;;
*) echo "nvme-rdma: no part $part" && exit 2 ;;
esac
