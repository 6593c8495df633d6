"""The errors of a sync, in the words that users and their tools read in Events (RC-70)."""

from kcm_host.api import ApiError, HostError, Unreachable

CHECKING = "checking for claim before creating it: "
UNSUPPORTED_ENTRY = (
    "entry '{entry}' of resourceClaims: none of the supported fields are set; "
    "set 'resourceClaimName' or 'resourceClaimTemplateName'"
)
NO_TEMPLATE = (
    'resource claim template "{name}": resourceclaimtemplate.resource.k8s.io "{name}" not found'
)
NO_ADMIN_ACCESS = "admin access is requested, but the feature is disabled"
NO_PRIORITIZED_LIST = (
    "template includes a prioritized list of subrequests, but the feature is disabled"
)
# The gap is where a name would stand; claims made from templates get theirs from the server.
CREATE = "create ResourceClaim : "
NO_WORKLOAD_CLAIMS = (
    "claim {entry} is a PodGroup claim but the DRAWorkloadResourceClaims feature is disabled"
)
NO_GENERIC_WORKLOAD = "Pod is a member of PodGroup {group} but GenericWorkload feature is disabled"
NO_RESPONSE = "the API server did not answer"
NO_POD_GROUP = "podgroup '{group}' in namespace '{namespace}' is not there; the pod waits for it"
INVALID_TEMPLATE = "the claim cannot be made from the template, correct it: {kind}: {error}"


class ReconcileError(Exception):
    """A claim cannot be made or reserved now; the sync is retried."""


class TerminalError(ReconcileError):
    """A claim cannot be made with these settings; the sync is not retried (RC-31)."""


def event_message(error: Exception) -> str:
    """Return the text of an Event about a claim that cannot be made."""
    match error:
        case HostError():
            return server_message(error)
        case ReconcileError():
            return str(error)
        case _:
            return INVALID_TEMPLATE.format(kind=type(error).__name__, error=error)


def server_message(error: HostError) -> str:
    """
    Return the message of the server, for users of one namespace.

    Texts of the transport, or of a proxy, are left out: they contain internal addresses.
    """
    if isinstance(error, Unreachable):
        return NO_RESPONSE
    if isinstance(error, ApiError):
        return error.server_message or f"{NO_RESPONSE} as expected, but with status {error.status}"
    return str(error)
