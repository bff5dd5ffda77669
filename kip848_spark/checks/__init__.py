"""Does what was rebuilt agree with what others say: so far, with the live broker."""
