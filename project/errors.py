"""Mistakes a user can make and mend, as opposed to bugs."""

import difflib
from collections.abc import Iterable

_MAX_LISTED = 12


class UserError(Exception):
    """Something the user can put right.

    The message says what is wrong with which name and value, what is allowed and what to do. The
    command line prints it without a traceback.
    """


class NothingToDo(Exception):  # noqa: N818 - what was asked for is so already
    """There is nothing to do, and that is as it should be; the message says why."""


class Interrupted(Exception):  # noqa: N818 - not an error: somebody asked for it
    """A signal ended the run; its state has been saved, if it had begun.

    Args:
        signum: The signal's number.
    """

    def __init__(self, signum: int) -> None:
        super().__init__(f"stopped by signal {signum}")
        self.signum = signum


class ChecksFailed(Exception):  # noqa: N818 - the checks worked, and have said what they found
    """A check found errors; all of them have been told."""


def suggestion(word: str, allowed: Iterable[str]) -> str:
    """The end of an error message: the nearest allowed word, then what is allowed.

    Args:
        word: What the user wrote.
        allowed: What would have been accepted.
    """
    names = sorted(set(allowed))
    by_lower_case = {name.lower(): name for name in names}
    near = difflib.get_close_matches(word.lower(), by_lower_case, n=_MAX_LISTED, cutoff=0.5)
    guess = f" Did you mean {by_lower_case[near[0]]!r}?" if near else ""
    listed = names
    if len(names) > 3 * _MAX_LISTED:
        listed = [by_lower_case[name] for name in near] or names[:_MAX_LISTED]
    more = f" and {len(names) - len(listed)} more" if len(listed) < len(names) else ""
    return f"{guess} Allowed: {', '.join(listed) or 'nothing'}{more}."
