"""Modules under the names that they had before 0.1, which old pickles import. The package finds them by its __path__."""
