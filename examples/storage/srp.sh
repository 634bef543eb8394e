#!/bin/sh
# SCSI over RDMA (SRP) inside one guest: the kernel's target and initiator, connected by rdma_cm.
#   mlx5emu run [--device connectx6dx] --share examples/storage -- sh /mnt/share/srp.sh
set -eu
. "$(dirname "$0")/address.sh"
. "$(dirname "$0")/disk.sh"
port=5555
adapter=/sys/class/infiniband/mlx5_0
guid=$(tr -d : < "$adapter/node_guid")

make_backstore
modprobe ib_srpt
name=$(cut -d: -f5- "$adapter/ports/1/gids/0") # a target named by all of the GID knows no addresses
group=$target/srpt/$name/$name
mkdir -p "$group/lun/lun_0" "$group/acls/$address/lun_0"
echo $port > "$target/srpt/discovery_auth/rdma_cm_port"
ln -s "$backstore" "$group/lun/lun_0/disk"
ln -s "$group/lun/lun_0" "$group/acls/$address/lun_0/disk"
echo 1 > "$group/enable"

modprobe ib_srp
echo "id_ext=$guid,ioc_guid=$guid,dest=$address:$port" \
    > /sys/class/infiniband_srp/srp-mlx5_0-1/add_target
wait_for_disk srp
verify srp 4k 1m
verify srp 256k 16m
copy_a_tree srp
for rport in /sys/class/srp_remote_ports/*; do echo 1 > "$rport/delete"; done
for _ in $(seq 100); do
    [ -e "/sys/block/${disk#/dev/}" ] || break
    sleep 0.1
done
modprobe -r ib_srp
echo 0 > "$group/enable"
rm "$group/acls/$address/lun_0/disk"
rmdir "$group/acls/$address/lun_0" "$group/acls/$address"
rm "$group/lun/lun_0/disk"
rmdir "$group/lun/lun_0" "$group" "$target/srpt/$name" "$target/srpt"
rmdir "$backstore" "${backstore%/*}"
modprobe -r ib_srpt
echo "srp: unloaded"
