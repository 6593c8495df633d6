"""The one error a user sees when the API server cannot be reached or refuses who we are."""

from kcm_host.observe.printable import printable
from kcm_host.wire.identity.secrets import without_secrets


class ConnectionProblem(Exception):
    """
    One clear line: what is wrong, where, and what to do; it never holds a token or a key.

    `exit_code` is 2 when the kubeconfig or the credentials are wrong, so that waiting cannot
    help, and 1 when the server cannot be reached, which may pass.
    """

    def __init__(self, message: str, *, exit_code: int = 2) -> None:
        super().__init__(printable(without_secrets(message)))
        self.exit_code = exit_code
