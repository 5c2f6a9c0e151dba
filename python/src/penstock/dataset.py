"""The public path of :mod:`penstock.data.dataset`. Importing this module gives that one."""

from .data.dataset import *  # noqa: F403
