"""Which permissions the controller needs on a real server."""

from eventually import eventually
from plugins.granted_roles import granted
from plugins.resourceclaim.objects import by_name
from plugins.resourceclaim.server_claims import (
    CREATE,
    DELETE,
    MAIN,
    RECORD,
    STATUS,
    claims_host,
    consumer,
)

from kcm_host_testing.api_server import ApiServer

DEVICE_GROUP = "resource.k8s.io"


def test_the_documented_permissions_are_enough(plugin_server: ApiServer) -> None:
    """And those for templates are needed, which the reference's own role lacks (RC-80)."""
    with (
        granted(plugin_server, "nobody", permissions()),
        claims_host(plugin_server, user="nobody") as begin,
    ):
        claims = begin()
        claims.template()
        pod = claims.pod("p", node="n")
        name = claims.made()["res"]
        claims.claim()
        claims.pod("static", by_name(), node="n")
        claims.allocate(name, consumer(pod))
        claims.allocate("c")
        claims.wait_until_idle()
        claims.pod("other", {"name": "res", "resourceClaimTemplateName": "missing"})
        eventually(claims.events, "an event is there")
        claims.phase("p", "Succeeded")
        eventually(lambda: name not in claims.names(), "the claim is gone")
        wanted = {CREATE, RECORD, STATUS, MAIN, DELETE}
        assert set(claims.writes()) == wanted
        eventually(
            lambda: {one.status for one in claims.requests()} <= {200, 201}, "all is answered well"
        )


def test_without_binding_no_claim_is_reserved(plugin_server: ApiServer) -> None:
    """The server asks for it beside the update of the status (section 10.1, section 13)."""
    binding = "resourceclaims/binding"
    lacking = [
        {**rule, "resources": [one for one in rule["resources"] if one != binding]}
        for rule in permissions()
    ]
    with (
        granted(plugin_server, "nobody", [rule for rule in lacking if rule["resources"]]) as grant,
        claims_host(plugin_server, user="nobody") as begin,
    ):
        claims = begin()
        claims.claim()
        claims.pod("p", by_name(), node="n")
        claims.allocate("c")
        eventually(
            lambda: [one for one in claims.requests("PUT") if one.status == 422], "it is refused"
        )
        grant(permissions())
        eventually(lambda: claims.consumers("c") == ["p"], "it is reserved")


def permissions() -> list[dict[str, list[str]]]:
    """Return the rules of the README's ClusterRole."""
    return [
        may("", "pods", "get", "list", "watch"),
        may("", "pods/status", "patch"),
        may("", "events", "create", "patch"),
        may(DEVICE_GROUP, "resourceclaimtemplates", "list", "watch"),
        may(DEVICE_GROUP, "resourceclaims", "get", "list", "watch", "create", "update", "delete"),
        may(DEVICE_GROUP, "resourceclaims/status", "update"),
        may(DEVICE_GROUP, "resourceclaims/binding", "update"),
    ]


def may(group: str, resource: str, *verbs: str) -> dict[str, list[str]]:
    """Return one rule."""
    return {"apiGroups": [group], "resources": [resource], "verbs": list(verbs)}
