"""The public path of :mod:`penstock.caching.fleet`. Importing this module gives that one."""

from .caching.fleet import *  # noqa: F403
