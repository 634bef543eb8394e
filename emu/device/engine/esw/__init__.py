"""The embedded switch (E-Switch): forwards frames between an adapter's vPorts and its uplink."""
