"""All scenarios: the fixed ones, and the random workloads with those of their seeds."""

from collections import Counter

from parity.scenario import Scenario
from parity.scenarios import (
    clusterrole_aggregation,
    clusterrole_aggregation_life,
    resourceclaim_life,
    resourceclaim_making,
    resourceclaim_use,
    resourcequota,
    resourcequota_claims,
    resourcequota_pods,
    resourcequota_random,
    servicecidrs,
    servicecidrs_deleted,
    ttl,
)
from parity.workloads import clusterrole_aggregation as random_roles
from parity.workloads import resourceclaim as random_claims
from parity.workloads import resourcequota as random_quotas
from parity.workloads import servicecidrs as random_ranges
from parity.workloads import ttl as random_nodes

#: Modules with scenarios; a new one is added here.
MODULES = (
    *(servicecidrs, servicecidrs_deleted),
    *(ttl, clusterrole_aggregation, clusterrole_aggregation_life),
    *(resourceclaim_making, resourceclaim_use, resourceclaim_life),
    *(resourcequota, resourcequota_pods, resourcequota_claims, resourcequota_random),
)
#: Random workloads; a new one is added here.
WORKLOADS = (
    random_nodes.WORKLOAD,
    random_roles.WORKLOAD,
    random_ranges.WORKLOAD,
    random_claims.WORKLOAD,
    random_quotas.WORKLOAD,
)

FIXED: tuple[Scenario, ...] = tuple(one for module in MODULES for one in module.SCENARIOS)
#: The seeds that every run of the tests plays; more are played by `make parity`.
SEEDS: tuple[Scenario, ...] = tuple(
    workload.of_seed(seed) for workload in WORKLOADS for seed in range(workload.seeds_in_tests)
)
RECORDED = FIXED + SEEDS
CONTROLLERS = tuple(dict.fromkeys(one.controller for one in RECORDED))


def twice() -> list[str]:
    """Return the ids that more than one scenario has."""
    return [name for name, count in Counter(one.id for one in RECORDED).items() if count > 1]
