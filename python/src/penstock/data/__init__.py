"""Data sets: reads, writes and packs them; their fields, single images and PLI; and the HTML that notebooks show of them."""
