"""The public path of :mod:`penstock.caching.cache`, which takes the place of this module."""

from .caching.cache import *  # noqa: F403
