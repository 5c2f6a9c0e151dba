"""Croissant, the metadata format of MLCommons for data sets: reads data sets that it describes, and writes it."""
