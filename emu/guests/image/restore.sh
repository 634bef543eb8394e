# Run by mmdebstrap on its empty tree ($1): puts there what another image has, @BASE@ is its file, if
# the archive has @PACKAGES@.
set -eu
root=${1:?}
PATH=$PATH:/usr/sbin:/sbin
export APT_CONFIG="$MMDEBSTRAP_APT_CONFIG"

apt-get update --error-on=any >&2 # mmdebstrap sees that it was done
# apt takes a name that it does not know for a pattern when there is a dot or a plus in it.
known=$(apt-cache pkgnames)
for name in @PACKAGES@; do
    echo "$known" | grep -qxF -e "$name" || {
        echo "E: Unable to locate package $name" >&2
        exit 1
    }
done

base=$root/mlx5emu-base # debugfs makes every directory itself
mkdir "$base"
debugfs -R "rdump / $base" @BASE@
# This run's configuration and lists; devices as its mode wants them, in a user namespace none yet.
find "$base/dev" -mindepth 1 -delete
[ ! -d "$root/dev" ] || cp -a "$root/dev" "$base"
cp -a "$root/etc" "$root/tmp" "$base"
cp -a "$root/var/lib/apt" "$base/var/lib"
cp -a "$root/var/cache/apt" "$base/var/cache"
find "$root" -mindepth 1 -maxdepth 1 ! -path "$base" -exec rm -rf {} +
find "$base" -mindepth 1 -maxdepth 1 -exec mv -t "$root" {} +
rmdir "$base" "$root/lost+found"

while read -r mode path; do
    [ ! -e "$root/$path" ] || chmod "$mode" "$root/$path" # what /dev has depends on the mode
done < "$root/usr/lib/mlx5emu/modes"
while read -r path capabilities; do
    chroot "$root" setcap "$capabilities" "$path"
done < "$root/usr/lib/mlx5emu/capabilities"
