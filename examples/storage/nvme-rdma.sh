#!/bin/sh
# NVMe over RDMA: the kernel's target and host, connected through the adapter, inside one guest:
#   mlx5emu run [--device connectx6dx] --share examples/storage -- sh /mnt/share/nvme-rdma.sh
# or between two whose interfaces are up, with the address of the first:
#   sh nvme-rdma.sh target 10.0.0.1      in the first one
#   sh nvme-rdma.sh host 10.0.0.1        in the second one
#   sh nvme-rdma.sh remove 10.0.0.1      in the first one: no target any more
# Uses fast registration, local invalidation and SEND with invalidate; each write is verified. With
# T10_PI=1 blocks have protection information, which the adapter makes and checks on either side.
set -eu
part=${1:-all}
if [ $# -gt 1 ]; then address=$2; else . "$(dirname "$0")/address.sh"; fi
configfs=/sys/kernel/config/nvmet
name=mlx5emu

# Waits for a file whose name is like this, and says in ``found`` which it is.
wait_for() {
    for _ in $(seq 100); do
        for found in $1; do [ -e "$found" ] && return; done
        sleep 0.1
    done
    echo "nvme-rdma: no $1" && exit 1
}

start_target() {
    modprobe -a nvmet_rdma loop
    mountpoint -q /sys/kernel/config || mount -t configfs none /sys/kernel/config
    if [ "${T10_PI-}" ]; then
        modprobe sd_mod
        # WRITE SAME of scsi_debug leaves the protection information as it was.
        modprobe scsi_debug dif=1 dix=1 dev_size_mb=64 delay=0 write_same_length=0
        wait_for "/sys/bus/pseudo/drivers/scsi_debug/adapter*/host*/target*/*/block/*"
        disk=/dev/${found##*/}
    else
        truncate -s 64M /tmp/namespace
        disk=$(losetup --find --show /tmp/namespace)
    fi
    mkdir -p "$configfs/subsystems/$name/namespaces/1" "$configfs/ports/1"
    echo 1 > "$configfs/subsystems/$name/attr_allow_any_host"
    if [ "${T10_PI-}" ]; then
        echo 1 > "$configfs/subsystems/$name/attr_pi_enable"
        echo 1 > "$configfs/ports/1/param_pi_enable"
    fi
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
    if [ "${T10_PI-}" ]; then modprobe -r scsi_debug; else losetup --detach "$disk"; fi
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
    wait_for /dev/nvme0n1
    if [ "${T10_PI-}" ]; then
        grep -q T10-DIF-TYPE1-CRC /sys/block/nvme0n1/integrity/format
        echo "nvme-rdma: blocks have T10-PI"
    fi
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
