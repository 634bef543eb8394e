"""Access registers: those of ports, modules, clocks, components and quality of service."""
