"""How many files and connections this process may have open."""

import logging
import resource

log = logging.getLogger(__name__)

#: Enough for any host. More is not asked for: programs that it starts, such as exec plugins, may
#: try to close every descriptor they could have, and container runtimes allow a billion.
MOST_FILES = 65_536


def raise_file_limit() -> int:
    """
    Set the soft limit of open files to the hard limit, at most 65,536, and return it.

    The usual soft limit of 1024 is for programs that use `select`, which this one does not. A limit
    that is higher already stays.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, MOST_FILES)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return soft
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    except (OSError, ValueError) as error:
        pairs = {"limit": soft, "error": str(error)}
        log.warning("limit of open files not raised", extra={"kv": pairs})
        return soft
    return wanted
