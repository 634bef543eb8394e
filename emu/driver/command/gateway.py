"""The vendor-specific gateway, driven the way core/lib/pci_vsc.c does."""

CONTROL, COUNTER, SEMAPHORE, ADDRESS, DATA = 0x4, 0x8, 0xC, 0x10, 0x14
FLAG, SYNDROME = 1 << 31, 1 << 30
ADDRESS_MASK = SYNDROME - 1
SPACE_SEMAPHORE = 0xA


class Gateway:
    """A driver of the gateway; a wait that would not end at once fails an assertion."""

    def __init__(self, bus):
        self.bus = bus
        self.at = bus.capabilities()[0x09]

    def get(self, register):
        return self.bus.get(self.at + register, 4)

    def put(self, register, value):
        self.bus.put(self.at + register, 4, value)

    def lock(self):
        """mlx5_vsc_gw_lock, one try."""
        if self.get(SEMAPHORE):
            return False
        ticket = self.get(COUNTER)
        self.put(SEMAPHORE, ticket)
        return self.get(SEMAPHORE) == ticket

    def unlock(self):
        self.put(SEMAPHORE, 0)

    def set_space(self, space):
        """mlx5_vsc_gw_set_space: the size, 0 when none is told, None for no such space."""
        self.put(CONTROL, self.get(CONTROL) & ~0xFFFF | space)
        control = self.get(CONTROL)
        if control >> 29 == 0:
            return None
        return self.get(ADDRESS) & ADDRESS_MASK if control & 1 << 28 else 0

    def write(self, address, value):
        self.put(DATA, value)
        self.put(ADDRESS, address | FLAG)
        assert not self.get(ADDRESS) & FLAG

    def read(self, address):
        self.put(ADDRESS, address)
        assert self.get(ADDRESS) & FLAG
        return self.get(DATA)

    def read_block(self, length):
        """mlx5_vsc_gw_read_block_fast: the words, by the address that the device moves on."""
        words, at = [], 0
        while at < length:
            words.append(self.read(at))
            following = self.get(ADDRESS) & ADDRESS_MASK
            assert following > at
            at = following
        return words

    def set_lock(self, lock, *, take):
        """mlx5_vsc_sem_set_space: whether the lock now has the wanted value."""
        assert self.set_space(SPACE_SEMAPHORE) is not None
        wanted = self.get(COUNTER) if take else 0
        self.write(lock, wanted)
        return self.read(lock) == wanted
