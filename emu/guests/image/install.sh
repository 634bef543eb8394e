# Run by mmdebstrap on the tree of another image ($1): adds @PACKAGES@ and their dependencies.
# Like mmdebstrap, it runs apt outside, with its keys and proxies, and dpkg inside.
set -eu
root=${1:?}
export APT_CONFIG="$MMDEBSTRAP_APT_CONFIG"
apt-get -o Dir::Bin::dpkg=env -o DPkg::Options::=--unset=TMPDIR -o DPkg::Options::=dpkg \
    -o DPkg::Chroot-Directory="$root" --yes install -- @PACKAGES@
