#!/bin/bash
# Virtual functions (VFs) in network namespaces, by the steps of a container's SR-IOV plugin.
#
# The physical function's driver gives each VF an address, a VLAN and a spoof check. Two containers
# in VLAN 10 reach each other, a third one in VLAN 20 reaches neither. A guest runs it:
#
#     mlx5emu run --device connectx6dx,vfs=3 --share examples/sriov -- bash /mnt/share/namespaces.sh
set -e
pf=/sys/bus/pci/devices/0000:01:00.0
uplink=$(ls $pf/net)
vlans=(10 10 20)

ip link set $uplink up
for vf in 0 1 2; do
    ip link set $uplink vf $vf mac 02:00:00:00:00:0$((vf + 1)) vlan ${vlans[vf]} spoofchk on
done
echo 3 > $pf/sriov_numvfs
for vf in 0 1 2; do
    until ls $pf/virtfn$vf/net/* > /tmp/net 2>&1; do sleep 0.1; done
    name=$(ls $pf/virtfn$vf/net)
    ip netns add pod$vf
    ip link set $name netns pod$vf name net1
    ip -n pod$vf address add 192.168.0.$((vf + 1))/24 dev net1
    ip -n pod$vf link set net1 up
done
ip link show $uplink

reaches() {
    if ip netns exec pod$1 ping -c 1 -W 10 192.168.0.$(($2 + 1)) > /tmp/ping; then
        echo "pod$1 reaches pod$2"
    else
        echo "pod$1 does not reach pod$2"
    fi
}
reaches 0 1
reaches 1 0
reaches 0 2

ip -all netns delete
echo 0 > $pf/sriov_numvfs
