"""Transports by which a client such as QEMU reaches the emulated function.

``emu.vfio.base`` has the interface that both share; ``vfio_user`` is our own vfio-user server
and the default, ``libvfio_user`` serves the same protocol through the C library of that name.
``emu.vfio.loop`` drives them.
"""
