"""The error for a connection or credentials that cannot be used."""

import re

from kcm_host.observe.escaping import printable

#: The user information of a URL. Bounded, so that the search stays linear in the text's length.
_USER_INFO = re.compile(r"://[^\s/@'\"<>]{1,1000}@")


def without_secrets(text: str) -> str:
    """Return the text with `://user:password@` of every URL in it replaced by `://***@`."""
    return _USER_INFO.sub("://***@", text)


class ConnectionProblem(Exception):
    """
    One line with fact, place and remedy; it never contains a token or a key.

    `exit_code` is 2 when the kubeconfig or the credentials are wrong, so that waiting cannot
    help, and 1 when the server cannot be reached, which may be temporary.
    """

    def __init__(self, message: str, *, exit_code: int = 2) -> None:
        super().__init__(printable(without_secrets(message)))
        self.exit_code = exit_code
