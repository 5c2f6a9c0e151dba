"""The public path of :mod:`penstock.caching.images`. Importing this module gives that one."""

from .caching.images import *  # noqa: F403
