"""Croissant, the metadata of data sets by MLCommons: read beside local data, and written."""
