"""Code compiled by mypyc: built from the installed sources, kept in the cache, loaded from there.

``sources`` lists what is compiled and computes the hash of its sources, ``loading`` puts a verified
library of the cache in the place of the modules, ``translate`` runs mypyc and the C compiler, and
``building`` fills the cache. The environment variable MLX5EMU_COMPILED=0 keeps pure Python.
"""
