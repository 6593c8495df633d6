"""What keeps a claim from being made, in the words that users and their tools see (RC-70)."""

from kcm_host.api import ApiError, HostError, Unreachable

CHECKING = "checking for claim before creating it: "
UNKNOWN_ENTRY = (
    "entry '{entry}' of resourceClaims: none of the supported fields are set; "
    "set 'resourceClaimName' or 'resourceClaimTemplateName'"
)
NO_TEMPLATE = (
    'resource claim template "{name}": resourceclaimtemplate.resource.k8s.io "{name}" not found'
)
NO_ADMIN_ACCESS = "admin access is requested, but the feature is disabled"
NO_ALTERNATIVES = "template includes a prioritized list of subrequests, but the feature is disabled"
# The gap is where a name would stand; claims made from templates get theirs from the server.
CREATE = "create ResourceClaim : "
NO_GROUP_CLAIMS = (
    "claim {entry} is a PodGroup claim but the DRAWorkloadResourceClaims feature is disabled"
)
NO_GROUPS = "Pod is a member of PodGroup {group} but GenericWorkload feature is disabled"
NO_ANSWER = "the API server did not answer"
NO_GROUP = "podgroup '{group}' in namespace '{namespace}' is not there; the pod waits for it"
UNEXPECTED = "the claim cannot be made from the template, correct it: {sort}: {error}"


class Problem(Exception):
    """A claim cannot be made now; the sync is retried."""


class PermanentProblem(Problem):
    """A claim cannot be made with these settings; the sync is not retried (RC-31)."""


def server_message(error: HostError) -> str:
    """
    Return what the server said, as the users of a namespace may read it.

    Texts of the transport, or of a proxy, name addresses that are none of their business.
    """
    if isinstance(error, Unreachable):
        return NO_ANSWER
    if isinstance(error, ApiError):
        return error.server_message or f"{NO_ANSWER} as expected, but with status {error.status}"
    return str(error)
