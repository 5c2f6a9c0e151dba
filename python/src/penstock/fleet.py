"""The public path of :mod:`penstock.caching.fleet`, which takes the place of this module."""

from .caching.fleet import *  # noqa: F403
