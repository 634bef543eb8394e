# What the examples with disks share; to be sourced. A target of the kernel's LIO with one disk, in a
# file, and what is done with the disk that appears on the initiator's side.
target=/sys/kernel/config/target
backstore=$target/core/fileio_0/disk

make_backstore() {
    modprobe -a target_core_mod target_core_file
    mountpoint -q /sys/kernel/config || mount -t configfs none /sys/kernel/config
    truncate -s 64M /tmp/disk
    mkdir -p "$backstore"
    echo fd_dev_name=/tmp/disk,fd_dev_size=67108864 > "$backstore/control"
    echo 1 > "$backstore/enable"
}

# The first SCSI disk: nothing else in the guest is one.
wait_for_disk() {
    modprobe sd_mod
    for _ in $(seq 300); do
        for disk in /sys/block/sd*; do
            [ -e "$disk" ] && disk=/dev/${disk##*/} && return
        done
        sleep 0.1
    done
    echo "$1: no disk" && exit 1
}

verify() {
    fio --name="$2" --filename="$disk" --rw=randwrite --bs="$2" --size="$3" --iodepth=4 \
        --ioengine=libaio --direct=1 --verify=crc32c --do_verify=1 --output=/tmp/fio.log ||
        { cat /tmp/fio.log; exit 1; }
    echo "$1: $3 in blocks of $2 written and verified"
}

copy_a_tree() {
    mkfs.ext4 -q "$disk"
    mkdir -p /tmp/mounted
    for _ in once again; do
        mount "$disk" /tmp/mounted
        [ -d /tmp/mounted/tree ] || cp -r /usr/share/doc/rdma-core /tmp/mounted/tree
        diff -r /usr/share/doc/rdma-core /tmp/mounted/tree
        umount /tmp/mounted
    done
    echo "$1: a tree copied to ext4 is the same after mounting again"
}
