# Run by mmdebstrap in an empty tree ($1): unpacks the newest kernel whose package name fits the
# pattern, with the linux-* packages that it needs. All names of kernels are logged, for the error
# message of a kernel that the archive does not have; the tree then stays empty.
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
