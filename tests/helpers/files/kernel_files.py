"""Builds the files in which a distribution ships a kernel and its modules, as small as they go."""

from struct import pack

SHT_PROGBITS, SHT_STRTAB, SHT_NOBITS = 1, 3, 8


def elf(sections, kind=SHT_PROGBITS):
    """A 64-bit little-endian ELF object of the named sections."""
    names, body, headers = b"\0", b"", [bytes(64)]
    for name, data in sections.items():
        headers.append(
            pack("<IIQQQQIIQQ", len(names), kind, 0, 0, 64 + len(body), len(data), *(0,) * 4)
        )
        names += name.encode() + b"\0"
        body += data
    at = 64 + len(body)
    headers.append(pack("<IIQQQQIIQQ", 0, SHT_STRTAB, 0, 0, at, len(names), *(0,) * 4))
    ident = b"\x7fELF\x02\x01\x01".ljust(16, b"\0")
    count = len(headers)
    head = pack(
        "<HHIQQQIHHHHHH", 1, 62, 1, 0, 0, at + len(names), 0, 64, 0, 0, 64, count, count - 1
    )
    return ident + head + body + names + b"".join(headers)


def module(btf, release="6.12.1-test"):
    """A kernel module that carries ``btf``."""
    modinfo = f"license=Dual BSD/GPL\0vermagic={release} SMP preempt mod_unload \0"
    return elf({".modinfo": modinfo.encode(), ".BTF": btf})


def vmlinux(btf, release="6.12.1-test"):
    """A kernel that carries ``btf``."""
    banner = f"%s version %s\0Linux version {release} (build@host) #1 SMP\n\0"
    return elf({".rodata": banner.encode(), ".BTF": btf})


def bzimage(payload, setup_sects=2, version=0x20F):
    """A bzImage whose protected-mode code begins with ``payload`` at offset 0x20."""
    setup = bytearray(((setup_sects or 4) + 1) * 512)
    setup[0x1F1] = setup_sects
    setup[0x202:0x208] = pack("<4sH", b"HdrS", version)
    setup[0x248:0x250] = pack("<II", 0x20, len(payload))
    return bytes(setup) + bytes(0x20) + payload + b"the rest of the code"
