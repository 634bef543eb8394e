#!/bin/bash
# Open vSwitch's own tests of tc's offload (make check-offloads) on the embedded switch.
#
# Where the tests make a pair of veth interfaces, a sub-function and its representor take its place.
# They come from sources of the guest's version of Open vSwitch (Debian 13: 3.5.0). There, before:
#
#     sed -i -e 's/AT_CHECK(\[ip link add $1 type veth peer name ovs-$1 .*/AT_CHECK([sf-take $1], [0], [ignore], [ignore])/' \
#         -e "s/on_exit 'echo removing interface ovs-\$1; .*/on_exit 'sf-give \$1 \$2'/" \
#         -e '/^ *CONFIGURE_VETH_OFFLOADS(\[$1\])$/d' tests/system-common-macros.at
#     ./boot.sh && ./configure PYTHON3=/usr/bin/python3 && make tests/system-offloads-testsuite
#
# A guest runs it, with the sources as its share:
#
#     mlx5emu run --stdin --kernel linux --share openvswitch --device connectx6dx,sfs=8 --package openvswitch-switch \
#         --package tcpdump --package ncat --package curl --package net-tools -- bash -s < ovs-offloads.sh
#
# More arguments behind "bash -s" are the testsuite's, such as 1-18; see "bash -s -- --list".
set -e
dev=pci/0000:01:00.0
count=6

devlink dev eswitch set $dev mode switchdev
ip link set eth0 up
for sf in $(seq $count); do
    said=$(devlink port add $dev flavour pcisf pfnum 0 sfnum $sf 2> /dev/null | head -1)
    port=${said%%: *}
    representor=$(echo "$said" | sed 's/.* netdev //; s/ .*//')
    devlink port function set $port hw_addr 02:00:00:00:00:0$sf state active 2> /dev/null
    until devlink port show $port 2> /dev/null | grep -q attached; do sleep 0.2; done
    device=$(devlink port show $port 2> /dev/null | grep -o 'auxiliary/mlx5_core.sf.[0-9]*')
    devlink dev param set $device name enable_eth value true cmode driverinit
    devlink dev reload $device
    ip link set "$(ls /sys/bus/auxiliary/devices/${device#*/}/net)" down name s$sf
    ip link set $representor down
    ip link set $representor name r$sf
    ethtool -K r$sf hw-tc-offload on
done

cat > /usr/local/bin/sf-take << 'TAKE'
#!/bin/sh
# sf-take NAME: a sub-function that is free becomes NAME, its representor ovs-NAME.
for k in $(seq 9); do
    [ -e /sys/class/net/s$k ] && [ -e /sys/class/net/r$k ] || continue
    ip link set s$k name $1 && ip link set r$k down && ip link set r$k name ovs-$1 && echo $k > /tmp/sf.$1
    exit
done
exit 77 # skips the test
TAKE
cat > /usr/local/bin/sf-give << 'GIVE'
#!/bin/sh
# sf-give NAME NAMESPACE: they are free again, as they were.
k=$(cat /tmp/sf.$1)
ip -n $2 address flush dev $1
ip -n $2 link set $1 down mtu 1500 address 02:00:00:00:00:0$k
ip -n $2 link set $1 netns 1
ip link set $1 name s$k
tc qdisc del dev ovs-$1 ingress 2> /dev/null
ip link set ovs-$1 down mtu 1500
ip link set ovs-$1 name r$k
GIVE
cp /mnt/share/tests/uuidfilt.py /usr/local/bin/uuidfilt
sed -i '1s,.*,#!/usr/bin/python3,' /usr/local/bin/uuidfilt
chmod +x /usr/local/bin/*

there=$(sed -n "s/^abs_top_srcdir='\(.*\)'/\1/p" /mnt/share/tests/atconfig)
mkdir -p "$(dirname "$there")" /tmp/tests
[ -e "$there" ] || ln -s /mnt/share "$there"
cp /mnt/share/tests/atconfig /mnt/share/tests/atlocal /mnt/share/tests/*.py /tmp/tests
echo nameserver 127.0.0.1 > /etc/resolv.conf # or each daemon complains, which fails a test
bash /mnt/share/tests/system-offloads-testsuite -C /tmp/tests AUTOTEST_PATH=/usr/bin:/usr/sbin:/usr/local/bin "$@"
