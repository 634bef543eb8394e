# Run by mmdebstrap on the finished tree ($1), before it is packed: makes a guest that boots fast
# and puts all that the host needs of it in usr/lib/mlx5emu.
set -eu
root=${1:?}

# One place for the kernel: in /boot up to trixie, in the module tree in sid.
release=$(ls "$root/usr/lib/modules")
mkdir "$root/usr/lib/mlx5emu"
for kernel in "$root/boot/vmlinuz-$release" "$root/usr/lib/modules/$release/vmlinuz"; do
    [ ! -e "$kernel" ] || mv "$kernel" "$root/usr/lib/mlx5emu/vmlinuz"
done
echo "$release" > "$root/usr/lib/mlx5emu/release"
chroot "$root" dpkg-query --show --showformat='${Version}\n' rdma-core \
    > "$root/usr/lib/mlx5emu/rdma-core"
cp "$root/usr/bin/busybox" "$root/usr/lib/mlx5emu/busybox"

# Emulated processors take seconds to unpack the modules that one boot loads.
find "$root/usr/lib/modules" -name '*.ko.xz' -printf '/%P\0' |
    sed -z "s,^,/usr/lib/modules," |
    chroot "$root" xargs -0 -r -P 2 -n 64 xz --decompress
chroot "$root" depmod "$release"

# rdma-core's conformance suite comes as documentation, partly compressed.
find "$root/usr/share/doc/rdma-core/tests" -name '*.gz' -exec gzip -d {} +
ln -s doc/rdma-core/tests "$root/usr/share/rdma-core-tests"

# A function keeps the name that the kernel gives it (mlx5_0) even if somebody starts udev.
ln -s /dev/null "$root/etc/udev/rules.d/60-rdma-persistent-naming.rules"

for name in reboot poweroff; do
    ln -sf /usr/bin/busybox "$root/usr/sbin/$name"
done
mkdir -p "$root/mnt/share"
echo guest > "$root/etc/hostname"
printf '127.0.0.1 localhost guest\n::1 localhost\n' > "$root/etc/hosts"
: > "$root/etc/fstab"
