"""The embedded switch (E-Switch): how frames pass between an adapter's vPorts and its cable."""
