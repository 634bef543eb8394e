"""ACCESS_REG, and the registers that it reads and writes."""
