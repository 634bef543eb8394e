"""Links that delay, lose, reorder and mark packets, as Linux's netem does for a network interface.

A function's port has one for each direction, between the port and what is behind it, while a user
has set properties (:class:`emu.device.faults.link.PlannedLink`).
"""
