# In a guest with two functions of one board: both in switchdev mode, and a bond of their interfaces.
#   sh bond.sh [MODE [POLICY]]      MODE of the bond, active-backup without it; POLICY of one that hashes
# Its last line is the driver's, which says whether the switches share a forwarding database.
set -e
lines=$(dmesg | wc -l)
for device in 1 2; do devlink dev eswitch set "pci/0000:0$device:00.0" mode switchdev; done
ip link add bond0 type bond mode "${1:-active-backup}" miimon 100 ${2:+xmit_hash_policy "$2"}
for port in eth0 eth1; do
    ip link set "$port" down
    ip link set "$port" master bond0
done
ip link set bond0 up
until dmesg | tail -n "+$((lines + 1))" | grep shared_fdb; do sleep 0.2; done
