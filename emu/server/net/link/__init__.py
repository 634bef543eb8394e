"""Links that delay, lose, reorder and mark packets, as Linux's netem does for an interface.

A function's port has a link for each direction, in front of its network, while a user has set
properties (:class:`emu.device.faults.link.PlannedLink`).
"""
