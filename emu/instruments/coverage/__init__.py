"""Which functions of a guest's kernel modules ran."""
