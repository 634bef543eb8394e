"""Debian's package archive: which one to use, what is fetched from it, which names it knows."""
