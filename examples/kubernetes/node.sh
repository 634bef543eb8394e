#!/bin/sh
# What Kubernetes' device plugins see of a node with eight adapters, without Kubernetes:
#   mlx5emu run $(for n in 1 2 3 4 5 6 7 8; do echo --device connectx6dx; done) \
#       --share examples/kubernetes -- sh /mnt/share/node.sh
# A plugin offers functions that its selectors fit: PCI vendor and device, driver, interface, link type. For each it
# hands a container the device files of /dev/infiniband, and tells the kubelet the NUMA node. The tables are what the
# shared device plugin (k8s-rdma-shared-dev-plugin) and the SR-IOV one (sriov-network-device-plugin) look up.
set -eu
vendors=${VENDORS:-15b3}
drivers=${DRIVERS:-mlx5_core}

fits() { # WORD LIST
    case ",$2," in *",$1,"*) return 0 ;; *) return 1 ;; esac
}

# The files that belong to a PCI function: its uverbs, umad and issm devices, and one that all share.
files() {
    for class in infiniband_verbs infiniband_mad; do
        for path in "$1/$class"/*; do
            [ -e "$path" ] || continue
            name=${path##*/}
            [ "$name" = abi_version ] || echo "/dev/infiniband/$name"
        done
    done
    echo /dev/infiniband/rdma_cm
}

modprobe -a ib_ipoib ib_umad # InfiniBand's interfaces and its management's files
count=0
printf '%s\n' "pci vendor device driver netdev link rdma numa files"
for function in /sys/bus/pci/devices/*; do
    pci=${function##*/}
    class=$(cat "$function/class")
    fits "$(cut -c3- "$function/vendor")" "$vendors" || continue
    fits "$(basename "$(readlink -f "$function/driver")")" "$drivers" || continue
    case $class in 0x0200* | 0x0207*) ;; *) continue ;; esac # network controllers, Ethernet and InfiniBand
    netdev=$(ls "$function/net")
    rdma=$(ls "$function/infiniband")
    for file in $(files "$function"); do
        [ -c "$file" ] || { echo "kubernetes: $pci has no $file" && exit 1; }
    done
    [ "$(cat "$function/infiniband/$rdma/ports/1/state")" = "4: ACTIVE" ] || { echo "kubernetes: $rdma is not up" && exit 1; }
    printf '%s %s %s %s %s %s %s %s %s\n' "$pci" "$(cut -c3- "$function/vendor")" "$(cut -c3- "$function/device")" \
        mlx5_core "$netdev" "$(cat "$function/infiniband/$rdma/ports/1/link_layer")" "$rdma" \
        "$(cat "$function/numa_node")" "$(files "$function" | sed 's,.*/,,' | tr '\n' , | sed 's/,$//')"
    count=$((count + 1))
done
echo "kubernetes: $count functions"
