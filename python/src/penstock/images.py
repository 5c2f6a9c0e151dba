"""The public path of :mod:`penstock.caching.images`, which takes the place of this module."""

from .caching.images import *  # noqa: F403
