# Run by mmdebstrap on the finished tree ($1): makes the file system of it. @IMAGE@ is the file to
# write, @SPARE@ how many MiB beside the tree's own it has room for.
set -eu
root=${1:?}

rm -rf "$root"/boot/* "$root"/vmlinuz* "$root"/initrd.img*
rm -rf "$root"/var/lib/apt/lists/* "$root"/var/cache/apt/* "$root"/var/log/*
rm -f "$root/usr/sbin/policy-rc.d" "$root/etc/resolv.conf"
# mmdebstrap keeps services from starting; it has no mounts to undo here where none is allowed.
real=$root/sbin/start-stop-daemon.REAL
[ ! -e "$real" ] || mv "$real" "${real%.REAL}"

# What debugfs loses when it copies the tree out of the image: bits beyond rwx, and capabilities.
(cd "$root" && find . -xdev ! -type l -perm /7000 -printf '%m %p\n') \
    > "$root/usr/lib/mlx5emu/modes"
chroot "$root" sh -c 'command -v getcap > /dev/null && getcap -r /usr || :' \
    > "$root/usr/lib/mlx5emu/capabilities"

# A bind mount shows the tree without what is mounted in it (proc, sys). Where no mount is allowed,
# mmdebstrap has mounted nothing either.
view=$root/mnt
if mount --bind "$root" "$view" 2> /dev/null; then
    trap 'umount "$view"' EXIT
else
    view=$root
fi
# No journal: the image is never written, each run writes to a layer of its own.
PATH=$PATH:/usr/sbin:/sbin
size=$(($(du -smx "$view" | cut -f 1) + @SPARE@))
mke2fs -q -F -t ext4 -O ^has_journal,^resize_inode -E root_owner=0:0,nodiscard \
    -L mlx5emu -d "$view" @IMAGE@ "${size}M"
