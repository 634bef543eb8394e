"""Transports by which a client such as QEMU reaches the emulated function.

``emu.server.vfio.base`` has their common interface. ``vfio_user`` is our own vfio-user server and
the default; ``libvfio_user`` serves the same protocol through the C library of that name.
``emu.server.vfio.loop`` drives them.
"""
