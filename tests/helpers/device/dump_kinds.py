"""The kinds of a resource dump's segments, by their names."""

from __future__ import annotations

from firmware_cmds.regs.dump_sources import SOURCES

BY_NAME = {source.name: number for number, source in SOURCES.items()}
