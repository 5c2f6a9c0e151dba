"""The public path of :mod:`penstock.loading.loader`. Importing this module gives that one."""

from .loading.loader import *  # noqa: F403
