cd /mnt/share
for s in nvme-rdma srp iser nfs-rdma; do echo "== $s"; timeout 100 sh -x ./$s.sh > /tmp/$s.log 2>&1; rc=$?; grep -v "^+" /tmp/$s.log | tail -12; [ $rc = 0 ] || tail -12 /tmp/$s.log; echo "rc $rc"; done
dmesg | tail -40
