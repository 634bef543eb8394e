# Run by mmdebstrap on the tree ($1): adds Python packages, of which @PYTHON@ is an archive.
set -eu
root=${1:?}
tar --extract --no-same-owner --directory "$root" --file @PYTHON@
# Guests would compile in each run anew, because theirs is a layer above the image.
chroot "$root" sh -c 'python3 -m compileall -q -j 0 /usr/local/lib/python3*/dist-packages' || :
