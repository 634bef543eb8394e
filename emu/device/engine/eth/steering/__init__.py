"""Flow steering as a data structure: tables, groups and entries, and what becomes of a packet.

Source: PRM "Flow steering"; core/fs_core.c and core/fs_cmd.c of Linux 6.12.
"""
