#!/bin/bash
# A VF for a QEMU inside the guest: vfio-pci hands it on, and the inner guest's mlx5_core probes it.
# KERNEL is the guest's own, as the inner guest loads the guest's modules; README.md tells where it
# is. Outside, with an IOMMU:
#
#     mlx5emu run --device connectx6dx,vfs=1 --iommu --package qemu-system-x86 --timeout 900 \
#         --share FOLDER -- bash /mnt/share/nested.sh /mnt/share/vmlinuz
set -e
kernel=${1:?the path of a kernel}
pf=/sys/bus/pci/devices/0000:01:00.0
root=$(mktemp -d)

echo 1 > $pf/sriov_numvfs
vf=$(basename "$(readlink $pf/virtfn0)")
name=$(ls $pf/net)
ip link set "$name" vf 0 mac 02:00:00:00:00:77
ip address add 10.9.0.1/24 dev "$name"
ip link set "$name" up

modprobe vfio-pci
echo "$vf" > "$pf/virtfn0/driver/unbind"
echo vfio-pci > "$pf/virtfn0/driver_override"
echo "$vf" > /sys/bus/pci/drivers_probe

# The inner guest: busybox, and the driver with the modules that it needs.
mkdir "$root"/{bin,dev,proc,sys,modules}
cp "$(command -v busybox)" "$root/bin/busybox"
modprobe --show-depends mlx5_core | while read -r _ path _; do
    plain=$(basename "$path" .xz)
    case $path in
    *.xz) xz -dc "$path" > "$root/modules/$plain" ;;
    *) cp "$path" "$root/modules/" ;;
    esac
    echo "$plain" >> "$root/modules/order"
done
cat > "$root/init" << 'END'
#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
for module in $(cat /modules/order); do insmod "/modules/$module"; done
until ls /sys/class/net | grep -q eth; do sleep 1; done
dmesg | grep 'firmware version'
ip address add 10.9.0.2/24 dev eth0
ip link set eth0 up
ip link show eth0
for _ in $(seq 30); do ! ping -c 1 -W 5 10.9.0.1 || break; done
ping -c 5 -W 10 10.9.0.1 && echo "the inner guest reaches the outer one"
poweroff -f
END
chmod +x "$root/init"
(cd "$root" && find . | cpio --quiet -o -H newc) > /tmp/inner.cpio

exec qemu-system-x86_64 -machine q35 -m 384 -display none -monitor none -serial stdio -net none \
    -no-reboot -kernel "$kernel" -initrd /tmp/inner.cpio \
    -append "console=ttyS0 quiet panic=-1 mitigations=off nokaslr" -device vfio-pci,host="$vf"
