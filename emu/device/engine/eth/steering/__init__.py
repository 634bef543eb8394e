"""Flow steering: tables, groups and entries, and their decision about a packet.

Source: PRM "Flow steering"; core/fs_core.c and core/fs_cmd.c of Linux 6.12.
"""
