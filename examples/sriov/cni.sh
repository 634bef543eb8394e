#!/bin/bash
# What Kubernetes' SR-IOV plugins do with VFs, without Kubernetes: sriov-network-device-plugin lists them,
# sriov-cni puts one into a pod's network namespace and takes it back. A guest runs it:
#
#     mlx5emu run --device connectx6dx,vfs=2 --share examples/sriov -- bash /mnt/share/cni.sh
set -e
devices=/sys/bus/pci/devices
pf=0000:01:00.0

physical() { ls "$devices/$1/physfn/net" | head -1; }

number() { # PCI: which "vf N" of its physical function it is
    for link in "$devices/$1"/physfn/virtfn*; do
        [ "$(basename "$(readlink "$link")")" = "$1" ] && echo "${link##*virtfn}"
    done
}

add() { # PCI NAMESPACE MAC VLAN ADDRESS
    local pci=$1 pod=$2 mac=$3 vlan=$4 address=$5 name
    name=$(ls "$devices/$pci/net")
    # What del restores: the interface's name and address, and the address that the PF has set.
    echo "$name $(cat "/sys/class/net/$name/address")" \
        "$(ip link show "$(physical "$pci")" | sed -n "s,.*vf $(number "$pci") .*link/ether \([^ ]*\).*,\1,p")" > "/tmp/$pci"
    ip link set "$(physical "$pci")" vf "$(number "$pci")" mac "$mac" vlan "$vlan" qos 0 \
        max_tx_rate 1000 spoofchk on trust off state enable
    ip link set "$name" down
    ip link set "$name" name "temp_$(number "$pci")"
    ip link set "temp_$(number "$pci")" netns "$pod"
    ip -n "$pod" link set "temp_$(number "$pci")" name net1
    ip -n "$pod" link set net1 address "$mac"
    ip -n "$pod" address add "$address" dev net1
    ip -n "$pod" link set net1 up
}

del() { # PCI NAMESPACE
    local pci=$1 pod=$2 name mac administrative
    read -r name mac administrative < "/tmp/$pci"
    ip -n "$pod" link set net1 down
    ip -n "$pod" address flush dev net1
    ip -n "$pod" link set net1 address "$mac"
    ip -n "$pod" link set net1 name "temp_$(number "$pci")"
    ip -n "$pod" link set "temp_$(number "$pci")" netns 1
    ip link set "temp_$(number "$pci")" name "$name"
    ip link set "$(physical "$pci")" vf "$(number "$pci")" vlan 0 qos 0 \
        max_tx_rate 0 spoofchk off trust off state auto
    ip link set "$(physical "$pci")" vf "$(number "$pci")" mac "$administrative" # no address is checked now
}

reaches() { # NAMESPACE ADDRESS
    ip netns exec "$1" ping -c 1 -W 10 "$2" > /tmp/ping && echo "$1 reaches $2" || echo "$1 does not reach $2"
}

ip link set "$(ls $devices/$pf/net)" up
cat $devices/$pf/sriov_totalvfs > $devices/$pf/sriov_numvfs
vfs=()
echo "pci device driver netdev rdma"
for link in $devices/$pf/virtfn*; do
    until ls "$link"/net/* "$link"/infiniband/*; do sleep 0.1; done > /tmp/ls 2>&1
    pci=$(basename "$(readlink "$link")")
    vfs+=("$pci")
    echo "$pci $(cut -c3- "$link/device") $(basename "$(readlink "$link/driver")") $(ls "$link/net") $(ls "$link/infiniband")"
done

for pod in 0 1; do
    ip netns add pod$pod
    add "${vfs[pod]}" pod$pod 02:00:00:00:0a:0$pod 10 192.168.0.$((pod + 1))/24
done
ip link show "$(physical "${vfs[0]}")"
reaches pod0 192.168.0.2
for pod in 0 1; do
    del "${vfs[pod]}" pod$pod
    ip netns del pod$pod
done
ip link show "$(physical "${vfs[0]}")"
echo "back: $(for pci in "${vfs[@]}"; do ls "$devices/$pci/net"; done | xargs)"
echo 0 > $devices/$pf/sriov_numvfs
