"""Bytes to columns: definitions, cursors over Arrow buffers, the decoder and its table forms."""
