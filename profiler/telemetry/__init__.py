"""Power, clocks and foreign processes of a device."""
