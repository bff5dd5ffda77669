"""A real broker and real consumers on this machine: what ``kip848 demo`` and the tests run on."""
