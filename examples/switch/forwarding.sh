#!/bin/bash
# The kernel's own tests of switches (tools/testing/selftests/net/forwarding) on the embedded switch.
#
# Four sub-functions, s1 to s4, are the tests' hosts; their representors, r1 to r4, are the switch's
# ports. A guest runs it, with the selftests of a kernel source tree of Linux 6.12 as its share:
#
#     mlx5emu run --stdin --kernel linux --share linux/tools/testing/selftests --device connectx6dx,sfs=8 \
#         --package jq --package netsniff-ng --package ncat --package tcpdump --package iputils-arping \
#         --timeout 7200 -- bash -s < forwarding.sh
#
# More arguments behind "bash -s" are names of tests. The README beside it says how the kernel is made,
# and has the table that comes last: the cases of each test that passed, of all.
set -e
tests=${*:-tc_flower tc_actions tc_chains tc_shblocks bridge_vlan_unaware bridge_vlan_aware tc_flower_l2_miss}
dev=pci/0000:01:00.0
said=/tmp/said

devlink dev eswitch set $dev mode switchdev
ip link set eth0 up
ethtool -K eth0 hw-tc-offload on
for sf in 1 2 3 4; do
    added=$(devlink port add $dev flavour pcisf pfnum 0 sfnum $sf 2> /dev/null | head -1)
    port=${added%%: *}
    representor=$(echo "$added" | sed 's/.* netdev //; s/ .*//')
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
NETIFS[p5]=r3
NETIFS[p6]=s3
NETIFS[p7]=r4
NETIFS[p8]=s4
NETIF_CREATE=no
NETIF_TYPE=
PING_TIMEOUT=10
CONFIG
export TC_HIT_TIMEOUT=6000 # milliseconds: the driver reads the counters of rules once a second

# Lines of what tests say become rows: name | rules in the kernel | in the adapter alone | not passed.
# Each test has its cases with rules in the kernel first.
table() {
    awk '
        function row() {
            if (name != "") printf "| %s | %s | %s | %s |\n", name, of(0), of(1), not_passed
            passed[0] = passed[1] = all[0] = all[1] = 0
            not_passed = ""
        }
        function of(way) { return all[way] ? passed[way] " of " all[way] : "" }
        /^== / { row(); name = $2; way = 0 }
        /^SKIP: / { not_passed = not_passed (not_passed ? "; " : "") $0 }
        /^TEST: / {
            if (/ \(skip_sw\)/) way = 1 # one that does not say follows one that does
            all[way]++
            if (/\[ OK \]$/) { passed[way]++; next }
            sub(/^TEST: /, "")
            gsub(/  +/, " ")
            not_passed = not_passed (not_passed ? "; " : "") $0
        }
        END { row() }' $said
}

for name in $tests; do
    echo "== $name"
    bash ./$name.sh 2>&1 || true
done | tee $said
echo
echo "| tests | skip_hw | skip_sw | not passed |"
echo "|---|---|---|---|"
table
! grep -q '\[FAIL\]' $said
