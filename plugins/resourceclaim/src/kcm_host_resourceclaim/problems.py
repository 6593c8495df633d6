"""What keeps a claim from being made, in the words that users and their tools see (RC-70)."""

from kcm_host.api import ApiError, HostError

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
NO_GROUP = "podgroup '{group}' in namespace '{namespace}' is not there; the pod waits for it"


class Problem(Exception):
    """A claim cannot be made now; the sync is retried."""


class PermanentProblem(Problem):
    """A claim cannot be made with these settings; the sync is not retried (RC-31)."""


def server_message(error: HostError) -> str:
    """Give what the server said, without the request that the host names before it."""
    if not isinstance(error, ApiError):
        return str(error)
    before = f": {error.status} {error.reason}: "
    return str(error).partition(before)[2] or str(error)
