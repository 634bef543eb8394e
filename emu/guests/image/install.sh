# Run by mmdebstrap on a tree that is another image's ($1): adds @PACKAGES@ and what they need.
# As mmdebstrap does it: apt runs outside, where its keys and its way to the archive are, dpkg inside.
set -eu
root=${1:?}
export APT_CONFIG="$MMDEBSTRAP_APT_CONFIG"
apt-get -o Dir::Bin::dpkg=env -o DPkg::Options::=--unset=TMPDIR -o DPkg::Options::=dpkg \
    -o DPkg::Chroot-Directory="$root" --yes install -- @PACKAGES@
