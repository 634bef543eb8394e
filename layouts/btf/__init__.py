"""Our structures held against those in the driver's own binaries, by their BTF."""
