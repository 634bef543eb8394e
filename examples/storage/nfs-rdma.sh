#!/bin/sh
# NFS over RDMA inside one guest: the kernel's server and client, connected through the adapter.
#   mlx5emu run [--device connectx6dx] --share examples/storage -- sh /mnt/share/nfs-rdma.sh
# Its lists of pages start and end anywhere, so memory is registered by KLM (SG_GAPS).
set -eu
. "$(dirname "$0")/address.sh"
exported=/srv/exported

ip link set lo up
modprobe -a nfsd rpcrdma
mkdir -p "$exported" /tmp/mounted /run/rpcbind
mount -t tmpfs none "$exported"
mountpoint -q /proc/fs/nfsd || mount -t nfsd nfsd /proc/fs/nfsd
# No client has state from before this boot, so nobody needs a grace period.
echo 10 > /proc/fs/nfsd/nfsv4leasetime
echo 10 > /proc/fs/nfsd/nfsv4gracetime
echo "$exported *(rw,no_root_squash,insecure,fsid=1,no_subtree_check)" > /etc/exports
rpcbind -w
exportfs -ra
rpc.mountd
rpc.nfsd 4
echo "rdma 20049" > /proc/fs/nfsd/portlist

attach() { mount -t nfs -o rdma,port=20049,vers=4.2 "$address:$exported" /tmp/mounted; }

attach
grep -q proto=rdma /proc/mounts
cp -r /usr/share/doc/rdma-core /tmp/mounted/tree
dd if=/dev/urandom of=/tmp/big bs=1M count=16 2> /dev/null
cp /tmp/big /tmp/mounted/big
umount /tmp/mounted
attach
diff -r /usr/share/doc/rdma-core /tmp/mounted/tree
cmp /tmp/big /tmp/mounted/big
echo "nfs-rdma: a tree and a file of 16 MiB are the same after mounting again"
umount /tmp/mounted
rpc.nfsd 0
