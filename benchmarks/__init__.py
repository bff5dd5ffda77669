"""How fast it is, measured: `make bench`."""
