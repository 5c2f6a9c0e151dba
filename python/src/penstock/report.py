"""The public path of :mod:`penstock.stalls.report`. Importing this module gives that one."""

from .stalls.report import *  # noqa: F403
