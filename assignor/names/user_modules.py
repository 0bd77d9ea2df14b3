"""Loads an object from a user's own module. The object is given as `module:name`."""

from importlib import import_module
from types import ModuleType

from assignor.errors import InputError
from assignor.names.near_names import did_you_mean


def named_object(reference: str, where: str, searched: str = "to import") -> object:
    """Imports the module of `module:name` and returns the object. The import runs the module's code. `name` may contain
    dots, as in `Class.method`.

    `searched`: the last words of the error message "there is no module ...". Raises InputError, with different messages
    for a missing module and for a module whose import fails.
    """
    module_name, _, path = reference.partition(":")
    try:
        found: object = import_module(module_name)
    # an InputError of the module, for example about an unknown config, has a clear message of its own
    except InputError as error:
        raise InputError(str(error), where) from error
    except Exception as error:  # a user's module can raise any exception
        missing = error.name if isinstance(error, ModuleNotFoundError) else None
        if missing is not None and f"{module_name}.".startswith(f"{missing}."):
            raise InputError(f"there is no module {missing!r} {searched}", where) from error
        reason = f"{error}" if missing is not None else f"{type(error).__name__}: {error}"
        raise InputError(f"importing {module_name!r} failed: {reason}", where) from error
    for name in path.split("."):
        try:
            found = getattr(found, name)
        except AttributeError:
            owner = f"module {found.__name__!r}" if isinstance(found, ModuleType) else type(found).__name__
            known = [each for each in dir(found) if not each.startswith("_")]
            raise InputError(f"{owner} has no {name!r}{did_you_mean(name, known)}", where) from None
        except Exception as error:  # a user's module may import its names when they are first used
            raise InputError(f"loading {name!r} failed: {type(error).__name__}: {error}", where) from error
    return found
