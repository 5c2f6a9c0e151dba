"""The public path of :mod:`penstock.data.mixture`. Importing this module gives that one."""

from .data.mixture import *  # noqa: F403
