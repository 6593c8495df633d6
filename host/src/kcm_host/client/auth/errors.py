"""The error that a user sees when the API server cannot be reached or refuses the credentials."""

import re

from kcm_host.observe.escaping import printable

#: The user information of a URL. Bounded, so that the search stays linear in the text's length.
_USER_INFO = re.compile(r"://[^\s/@'\"<>]{1,1000}@")


def without_secrets(text: str) -> str:
    """Return the text with `://user:password@` of every URL in it replaced by `://***@`."""
    return _USER_INFO.sub("://***@", text)


class ConnectionProblem(Exception):
    """
    One clear line: what is wrong, where, and what to do; it never holds a token or a key.

    `exit_code` is 2 when the kubeconfig or the credentials are wrong, so that waiting cannot
    help, and 1 when the server cannot be reached, which may pass.
    """

    def __init__(self, message: str, *, exit_code: int = 2) -> None:
        super().__init__(printable(without_secrets(message)))
        self.exit_code = exit_code
