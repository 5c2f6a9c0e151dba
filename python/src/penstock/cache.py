"""The public path of :mod:`penstock.caching.cache`. Importing this module gives that one."""

from .caching.cache import *  # noqa: F403
