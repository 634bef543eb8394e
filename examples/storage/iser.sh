#!/bin/sh
# iSCSI over RDMA (iSER) inside one guest: the kernel's target and initiator, through the adapter.
#   mlx5emu run [--device connectx6dx] --package open-iscsi --share examples/storage -- \
#       sh /mnt/share/iser.sh
set -eu
. "$(dirname "$0")/address.sh"
. "$(dirname "$0")/disk.sh"
name=iqn.2026-01.test.mlx5emu:disk

make_backstore
modprobe -a iscsi_target_mod ib_isert ib_iser
group=$target/iscsi/$name/tpgt_1
mkdir -p "$group/lun/lun_0" "$group/np/$address:3260"
ln -s "$backstore" "$group/lun/lun_0/disk"
echo 1 > "$group/np/$address:3260/iser"
echo 0 > "$group/attrib/authentication"
echo 1 > "$group/attrib/generate_node_acls"
echo 0 > "$group/attrib/demo_mode_write_protect"
echo 1 > "$group/enable"

echo InitiatorName=iqn.2026-01.test.mlx5emu:host > /etc/iscsi/initiatorname.iscsi
ip link set lo up
iscsid
iscsiadm -m node -T "$name" -p "$address:3260,1" -I iser -o new > /dev/null
iscsiadm -m node -T "$name" -p "$address:3260,1" -I iser --login > /dev/null
wait_for_disk iser
verify iser 4k 1m
verify iser 256k 16m
copy_a_tree iser
iscsiadm -m node -T "$name" --logout > /dev/null
# The target's side ends later, when it has destroyed its thousands of memory keys. Linux 6.12
# panics when the target is taken away before.
for _ in $(seq 600); do
    grep -q :host "$group/dynamic_sessions" || break
    sleep 0.1
done
echo 0 > "$group/enable"
rmdir "$group/np/$address:3260"
rm "$group/lun/lun_0/disk"
rmdir "$group/lun/lun_0" "$group" "$target/iscsi/$name" "$target/iscsi"
rmdir "$backstore" "${backstore%/*}"
iscsiadm -k 0
modprobe -r ib_iser
modprobe -r ib_isert
echo "iser: unloaded"
