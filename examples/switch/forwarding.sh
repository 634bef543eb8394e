#!/bin/bash
# The kernel's own tests of switches (tools/testing/selftests/net/forwarding) on the embedded switch.
#
# Two sub-functions, s1 and s2, are the tests' hosts; their representors, r1 and r2, are the switch's
# ports. A guest runs it, with the selftests of a kernel source tree of Linux 6.12 as its share:
#
#     mlx5emu run --stdin --kernel linux --share linux/tools/testing/selftests --device connectx6dx,sfs=4 \
#         --package jq --package netsniff-ng --package ncat --package tcpdump -- bash -s < forwarding.sh
#
# More arguments behind "bash -s" are names of tests. The README beside it says how the kernel is made.
set -e
tests=${*:-tc_flower tc_actions tc_chains tc_shblocks bridge_vlan_unaware bridge_vlan_aware tc_flower_l2_miss}
dev=pci/0000:01:00.0

devlink dev eswitch set $dev mode switchdev
ip link set eth0 up
ethtool -K eth0 hw-tc-offload on
for sf in 1 2; do
    said=$(devlink port add $dev flavour pcisf pfnum 0 sfnum $sf 2> /dev/null | head -1)
    port=${said%%: *}
    representor=$(echo "$said" | sed 's/.* netdev //; s/ .*//')
    devlink port function set $port hw_addr 02:00:00:00:00:0$sf state active 2> /dev/null
    until devlink port show $port 2> /dev/null | grep -q attached; do sleep 0.2; done
    device=$(devlink port show $port 2> /dev/null | grep -o 'auxiliary/mlx5_core.sf.[0-9]*')
    devlink dev param set $device name enable_eth value true cmode driverinit
    devlink dev reload $device
    ip link set "$(ls /sys/bus/auxiliary/devices/${device#*/}/net)" name s$sf
    ip link set $representor down
    ip link set $representor name r$sf
    for interface in r$sf s$sf; do
        ethtool -K $interface hw-tc-offload on
        ip link set $interface up
    done
done

cp -r /mnt/share/net /tmp/selftests
cd /tmp/selftests/forwarding
cat > forwarding.config << CONFIG
NETIFS[p1]=s1
NETIFS[p2]=r1
NETIFS[p3]=r2
NETIFS[p4]=s2
NETIF_CREATE=no
NETIF_TYPE=
PING_TIMEOUT=10
CONFIG
export TC_HIT_TIMEOUT=6000 # milliseconds: the driver reads the counters of rules once a second
failed=0
for name in $tests; do
    echo "== $name"
    bash ./$name.sh 2>&1 || failed=1
done
exit $failed
