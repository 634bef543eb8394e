#!/bin/sh
# UCX over the adapter: its transports and protocols between two processes of one guest.
#   mlx5emu run --package ucx-utils --share examples/ucx -- sh /mnt/share/ucx.sh [TRANSPORT...]
# TRANSPORT is one of rc_verbs rc_mlx5 dc_mlx5 ud_verbs ud_mlx5, by default all of them. The verbs ones
# go through libibverbs; the mlx5 ones make their queues by DEVX and write work requests themselves.
# PARTS may leave something out: transport (by itself), protocols (UCP's, over it), verified (io_demo).
set -eu
device=mlx5_0
iterations=${ITERATIONS:-100}
parts=${PARTS:-transport protocols verified}
address=10.7.1.1
port=13337
cd "$(mktemp -d)"

fail() {
    cat client.log server.log
    echo "ucx: $1 failed"
    exit 1
}

# Two processes run the tests of a file; a line of it is a test's name, then its options.
perftest() {
    title=$1 tests=$2
    shift 2
    port=$((port + 1))
    set -- -P 0 -b "$tests" -f -v -n "$iterations" -w 10 -p "$port" "$@" # 0: no start by mpirun
    ucx_perftest "$@" > server.log 2>&1 &
    until ss -Hltn "sport = :$port" | grep -q LISTEN; do sleep 0.1; done
    ucx_perftest "$@" 127.0.0.1 > client.log 2>&1 || fail "$title"
    wait $! || fail "$title"
    echo "ucx: $title: $(wc -l < "$tests") tests"
}

# Requests of random sizes, connected by rdma_cm; both sides check what arrives.
io_demo_verified() {
    port=$((port + 1))
    set -- -q -p "$port" -d 8:300000
    io_demo "$@" > server.log 2>&1 &
    until grep -q "started listener" server.log; do sleep 0.1; done
    io_demo "$@" -i "$iterations" -o read,write -c 1 "$address" > client.log 2>&1 || fail io_demo
    kill $!
    { wait $! || :; } 2> /dev/null
    grep -q "exit with status 'OK'" client.log || fail io_demo
    echo "ucx: io_demo over $transport: data verified"
}

# UCP has no other transport than this one.
with_ucp() {
    export UCX_TLS="$tls" UCX_NET_DEVICES="$device:1"
    "$@"
    unset UCX_TLS UCX_NET_DEVICES
}

cat > messages << END
am_lat -t am_lat -s 8
am_bw_bcopy -t am_bw -s 1000 -D bcopy
am_bw_zcopy -t am_bw -s 1000 -D zcopy
END
cat messages - > messages-and-memory << END
put_lat -t put_lat -s 8
put_bw_bcopy -t put_bw -s 4000 -D bcopy
put_bw_zcopy -t put_bw -s 65536 -D zcopy
get_bcopy -t get -s 100 -D bcopy
get_zcopy -t get -s 65536 -D zcopy
add -t add_mr -s 8
fadd -t fadd -s 8
cswap -t cswap -s 8
END
cat > protocols << END
tag_lat -t tag_lat -s 8
tag_rendezvous -t tag_bw -s 300000
tag_sync -t tag_sync_lat -s 100
am_lat -t ucp_am_lat -s 2000
stream -t stream_lat -s 1000
put -t ucp_put_lat -s 1000
get -t ucp_get -s 100000
add -t ucp_add -s 8
fadd -t ucp_fadd -s 8
swap -t ucp_swap -s 4
cswap -t ucp_cswap -s 8
END

ucx_info -d > devices 2> client.log || fail ucx_info
[ ! -s client.log ] || fail ucx_info
echo "ucx: $(grep -c "Device: $device:1" devices) transports"

modprobe ib_ipoib
nic=$(ls "/sys/class/infiniband/$device/device/net") # IPoIB's, or that of the Ethernet port
ip address replace "$address/24" dev "$nic"
ip link set "$nic" up
until grep -q 1 "/sys/class/net/$nic/carrier"; do sleep 0.1; done

[ $# -gt 0 ] || set -- rc_verbs rc_mlx5 dc_mlx5 ud_verbs ud_mlx5
for transport; do
    tests=messages-and-memory
    # UCX_TLS is for UCP, which makes its protocols of transports. rc_v and rc_x connect by datagrams.
    case $transport in
    rc_verbs) tls=rc_v ;;
    rc_mlx5) tls=rc_x ;;
    dc_mlx5) tls=dc_x ;;
    ud_verbs) tls=ud_v tests=messages ;;
    ud_mlx5) tls=ud_x tests=messages ;;
    *) echo "ucx: no transport $transport" && exit 2 ;;
    esac
    for part in $parts; do
        case $part in
        transport) perftest "$transport" "$tests" -d "$device:1" -x "$transport" ;;
        protocols) with_ucp perftest "protocols over $transport" protocols ;;
        verified) with_ucp io_demo_verified ;;
        *) echo "ucx: no part $part" && exit 2 ;;
        esac
    done
done
