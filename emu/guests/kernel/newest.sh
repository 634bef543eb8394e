# Run by mmdebstrap in an empty tree ($1): unpacks the newest kernel whose package has such a name,
# with what it needs of other linux-* packages. All names go into the log, for whoever
# has asked for a kernel that the archive does not have; then the tree stays empty.
set -eu
root=${1:?}
export APT_CONFIG="$MMDEBSTRAP_APT_CONFIG"
apt-cache pkgnames linux-image- | sed 's/^/kernel: /' >&2
name=$(apt-cache pkgnames linux-image- | { grep --extended-regexp --line-regexp '@PATTERN@' || :; } |
    sort --version-sort | tail --lines=1)
[ -n "$name" ] || exit 0
apt-get --yes --download-only install "$name" >&2
for package in "$root"/var/cache/apt/archives/linux-*.deb; do
    dpkg-deb --extract "$package" "$root"
done
