#!/bin/sh
# libfabric's verbs provider over the adapter: what it offers, and messages between two processes of one guest.
#   mlx5emu run --package libfabric-bin --share examples/libfabric -- sh /mnt/share/pingpong.sh [TYPE...]
# TYPE is a type of endpoint, by default all three: msg (connected, RC), dgram (UD), rdm (reliable datagrams that
# libfabric's ofi_rxm makes of connected endpoints). Both sides check the data, except of datagrams, which may be lost.
set -eu
iterations=${ITERATIONS:-10}
address=10.7.2.1
port=13400
cd "$(mktemp -d)"

fail() {
    cat client.log server.log
    echo "libfabric: $1 failed"
    exit 1
}

# The provider takes its addresses from rdma_cm, so the port has one of IP.
modprobe ib_ipoib
nic=$(ls /sys/class/infiniband/mlx5_0/device/net) # IPoIB's, or that of the Ethernet port
ip address replace "$address/24" dev "$nic"
ip link set "$nic" up
until grep -q 1 "/sys/class/net/$nic/carrier"; do sleep 0.1; done

[ $# -gt 0 ] || set -- msg dgram rdm
for type; do
    case $type in
    msg) provider=verbs checked=-c ;;
    dgram) provider=verbs checked='' ;;
    rdm) provider='verbs;ofi_rxm' checked=-c ;;
    *) echo "libfabric: no type $type" && exit 2 ;;
    esac
    fi_info -p "$provider" -t "FI_EP_$(echo "$type" | tr a-z A-Z)" > client.log 2>&1 || fail "fi_info, $type"
    port=$((port + 1))
    # shellcheck disable=SC2086 # an option, or none
    set_of="-p $provider -e $type -I $iterations $checked"
    fi_pingpong $set_of -B "$port" > server.log 2>&1 &
    until ss -Hltn "sport = :$port" | grep -q LISTEN; do sleep 0.1; done
    fi_pingpong $set_of -P "$port" "$address" > client.log 2>&1 || fail "$type"
    wait $! || fail "$type"
    echo "libfabric: $type over $provider: $(grep -c '^[0-9]' client.log) sizes"
done
