# Run by mmdebstrap on the unpacked tree ($1) of another architecture, whose programs do not run
# here: does what the packages' scripts and finalize.sh would do, by programs of the host.
set -eu
root=${1:?}
PATH=$PATH:/usr/sbin:/sbin

release=$(ls "$root/usr/lib/modules")
mkdir "$root/usr/lib/mlx5emu"
for kernel in "$root"/boot/vmlinu[xz]-"$release" "$root/usr/lib/modules/$release"/vmlinu[xz]; do
    [ ! -e "$kernel" ] || mv "$kernel" "$root/usr/lib/mlx5emu/vmlinuz"
done
echo "$release" > "$root/usr/lib/mlx5emu/release"
# No database of packages has the version: libibverbs.so.1.15.65.0 is that of rdma-core 65.0.
library=$(cd "$root/usr/lib" && echo */libibverbs.so.1.*.*.*)
echo "${library##*.so.1.}" | sed 's/^[0-9]*\.//' > "$root/usr/lib/mlx5emu/rdma-core"
cp "$root/usr/bin/busybox" "$root/usr/lib/mlx5emu/busybox"

# rdma-core's conformance suite comes as documentation, partly compressed.
mv "$root/usr/share/doc/rdma-core/tests" "$root/usr/share/rdma-core-tests"
find "$root/usr/share/rdma-core-tests" -name '*.gz' -exec gzip -d {} +

# The excluded paths: mmdebstrap has unpacked them as well.
for path in @EXCLUDED@; do
    rm -rf "$root"$path
done
find "$root/usr/lib/modules" -name '*.ko.xz' -print0 | xargs -0 -r -P 2 -n 64 xz --decompress
depmod -b "$root" "$release"

for name in passwd group; do # base-passwd's script copies them
    cp "$root/usr/share/base-passwd/$name.master" "$root/etc/$name"
done
# Users of rpcbind and nfs-common, and directories of base-files.
for user in _rpc:101 statd:102; do
    echo "${user%:*}:x:${user#*:}:65534::/nonexistent:/usr/sbin/nologin" >> "$root/etc/passwd"
done
for path in bin etc games include lib sbin share src; do
    mkdir -p "$root/usr/local/$path"
done
mkdir -p "$root/home" "$root/media" "$root/opt" "$root/srv" "$root/var/lib/nfs/sm" \
    "$root/var/mail" "$root/var/opt"
# Programs that a package's script would link.
for name in sh awk which vi seq; do
    [ -e "$root/usr/bin/$name" ] || [ -e "$root/usr/sbin/$name" ] ||
        ln -s busybox "$root/usr/bin/$name"
done
for name in reboot poweroff; do
    ln -sf /usr/bin/busybox "$root/usr/sbin/$name"
done
mkdir -p "$root/mnt/share" "$root/etc/udev/rules.d"
ln -s /dev/null "$root/etc/udev/rules.d/60-rdma-persistent-naming.rules"
echo guest > "$root/etc/hostname"
printf '127.0.0.1 localhost guest\n::1 localhost\n' > "$root/etc/hosts"
: > "$root/etc/fstab"
