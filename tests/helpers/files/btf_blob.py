"""Builds BTF by hand, one record at a time, so that a test says exactly what is wrong with it."""

from struct import pack

from layouts.btf.reader import BtfKind


class Blob:
    """A BTF section in the making; ``base`` is the vmlinux that a module's is split from."""

    def __init__(self, base=None, order="<"):
        self.order = order
        self.base = base
        self.types = b""
        self.strings = b"" if base else b"\0"
        self.first = base.next_id if base else 1
        self.first_string = base.string_end if base else 0
        self.next_id = self.first

    @property
    def string_end(self):
        return self.first_string + len(self.strings)

    def pack(self, fmt, *values):
        return pack(self.order + fmt, *values)

    def string(self, text):
        if not text:
            return 0
        offset = self.string_end
        self.strings += text.encode() + b"\0"
        return offset

    def add(self, kind, name="", value=0, vlen=0, flag=False, tail=b""):
        """One record; ``value`` is its size or the type that it refers to. Gives its number."""
        info = vlen | kind << 24 | flag << 31
        self.types += self.pack("III", self.string(name), info, value) + tail
        self.next_id += 1
        return self.next_id - 1

    def integer(self, name="u8", size=1):
        return self.add(BtfKind.INT, name, size, tail=self.pack("I", size * 8))

    def array(self, item, count):
        return self.add(BtfKind.ARRAY, tail=self.pack("III", item, item, count))

    def composite(self, kind, name, size, *members, flag=False):
        """``members`` are (name, type, offset in bits); with ``flag`` a bit-field width follows."""
        tail = b""
        for member, type_id, offset, *bitfield in members:
            offset |= (bitfield[0] if bitfield else 0) << 24
            tail += self.pack("III", self.string(member), type_id, offset)
        return self.add(kind, name, size, len(members), flag, tail)

    def struct(self, name, size, *members, flag=False):
        return self.composite(BtfKind.STRUCT, name, size, *members, flag=flag)

    def union(self, name, size, *members):
        return self.composite(BtfKind.UNION, name, size, *members)

    def ifc(self, name, *members):
        """A structure as mlx5_ifc.h has it: (name, bits) or (name, type, bits) in order."""
        placed, offset = [], 0
        for member, *kind, width in members:
            type_id = kind[0] if kind else self.array(self.u8, width)
            placed.append((member, type_id, offset * 8))
            offset += width
        return self.struct(f"mlx5_ifc_{name}_bits", offset, *placed)

    @property
    def u8(self):
        """The type u8, which is the first one of any blob that uses ``ifc``."""
        if self.next_id == self.first:
            self.integer()
        return self.first

    def data(self, magic=0xEB9F, version=1, header=24, extra=b""):
        sizes = (0, len(self.types), len(self.types), len(self.strings))
        head = self.pack("HBBIIIII", magic, version, 0, header, *sizes)
        return head + extra + self.types + self.strings
