"""A finding as a mail for the kernel's list: what happens, where in the driver, and a patch."""
