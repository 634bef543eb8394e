"""Software-owned flow tables: steering entries (STEs) in ICM, and a packet's walk."""
