"""Data sets of the user's own as sources of `pack`: objects of Python with `__len__` and `__getitem__`."""
