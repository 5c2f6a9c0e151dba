"""The public path of :mod:`penstock.loading.arguments`. Importing this module gives that one."""

from .loading.arguments import *  # noqa: F403
