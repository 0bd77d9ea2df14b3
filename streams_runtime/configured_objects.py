"""Objects of the user's that a config names instead of holding them."""

from __future__ import annotations

import importlib

from assignor.errors import InputError


def imported_object(key: str, name: str, where: str, otherwise: str = "") -> object:
    """What `package.module.NAME` or `package.module:NAME` names. Raises InputError, which names the config.

    `otherwise`: what else the config may be, for the error, with " or " at its end.
    """
    module, _, attribute = name.replace(":", ".").rpartition(".")
    if not module or not attribute:
        raise InputError(f"{key} must be {otherwise}a full name such as package.module.NAME, not {name!r}", where)
    try:
        return getattr(importlib.import_module(module), attribute)
    except ImportError as error:
        raise InputError(f"{key}: {module} cannot be imported: {error}", where) from error
    except AttributeError:
        raise InputError(f"{key}: {module} has no {attribute}", where) from None


def made(key: str, found: object, where: str) -> object:
    """The object itself, or one of its kind if it is a class. Raises InputError when that takes arguments."""
    if not isinstance(found, type):
        return found
    try:
        return found()
    except Exception as error:
        raise InputError(f"{key}: {found.__name__} cannot be made without arguments: {error}", where) from error
