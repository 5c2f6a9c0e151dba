"""Data sets: reading, writing, packing; their fields, single images, PLI; and what notebooks show of all this."""
