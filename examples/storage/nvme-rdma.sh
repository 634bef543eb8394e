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
. "$(dirname "$0")/disk.sh"
configfs=/sys/kernel/config/nvmet
name=${NQN:-mlx5emu}

start_target() {
    modprobe -a nvmet_rdma loop
    mountpoint -q /sys/kernel/config || mount -t configfs none /sys/kernel/config
    if [ "${T10_PI-}" ]; then
        # WRITE SAME of scsi_debug leaves the protection information as it was.
        modprobe scsi_debug dif=1 dix=1 dev_size_mb=64 delay=0 write_same_length=0
        wait_for_disk nvme-rdma
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

use_as_host() {
    modprobe nvme_rdma
    # Before its last command a disconnecting host destroys its keys one by one, and keeps nothing
    # alive meanwhile. That takes an emulated guest over the default of 5 s, after which the target
    # drops the connection and the host's command has no response.
    nvme connect --transport rdma --traddr "$address" --trsvcid 4420 --nqn "$name" \
        --keep-alive-tmo 60 > /dev/null
    disk=/dev/nvme0n1
    for _ in $(seq 50); do [ -b "$disk" ] && break; sleep 0.1; done
    if [ "${T10_PI-}" ]; then
        grep -q T10-DIF-TYPE1-CRC /sys/block/nvme0n1/integrity/format
        echo "nvme-rdma: blocks have T10-PI"
    fi
    verify nvme-rdma 4k 2m
    verify nvme-rdma 256k 16m
    copy_a_tree nvme-rdma
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
