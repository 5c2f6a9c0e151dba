"""The user's own data sets as sources of `pack`: Python objects with `__len__` and `__getitem__`."""
