"""Second opinions: plain models that the device is held against."""
