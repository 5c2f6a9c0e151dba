"""Modules by the names that they had before 0.1, for pickles of that time: the package finds them by its __path__."""
