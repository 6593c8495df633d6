"""The clusterrole-aggregation controller as a kcm-host plugin."""

from kcm_host_clusterrole_aggregation.plugin import ClusterRoleAggregation

__all__ = ["ClusterRoleAggregation"]
