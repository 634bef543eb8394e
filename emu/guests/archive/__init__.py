"""Debian's package archive: mirrors, mmdebstrap, disk space, names of suites and packages."""
