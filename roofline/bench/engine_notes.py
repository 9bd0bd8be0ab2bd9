"""Notes on the constants of a deployment's engine: whose they are, and how far off end to end."""

from collections.abc import Mapping

from roofline.cost.deployment import Deployment


def profile_source(deployment: Deployment) -> str:
    """File of the user's own that has the engine's constants; empty where they are shipped."""
    known = deployment.calibration
    return "" if known is None else known.profile.source


def name_of(deployment: Deployment) -> str:
    """Network, devices, layout, formats and engine of a deployment, as a log's profile has them."""
    at = deployment
    formats = f"{at.weights_name} weights, {at.precision.kv.name} cache"
    return f"{at.architecture.name}, {at.node.gpu.name}, {at.layout}, {formats}, {at.engine.name}"


def profile_note(deployment: Deployment, batch: float = 0.0, context: float = 0.0) -> str:
    """Sentence on the user's own profile of a deployment; empty where it has the shipped one.

    Args:
        deployment: As `roofline.bench.end_to_end.profiles.with_profile` made it.
        batch, context: Load that is asked about; 0 for any. [1] [token]
    """
    source, logged = profile_source(deployment), deployment.engine_costs.logged
    if not source:
        return ""
    whole = f"The engine's constants are those of {source}"
    if logged is None:
        return f"{whole}; no log of this deployment narrows the intervals."
    (few, many), (short, long) = logged.batch, logged.context
    whole += (
        f", learnt from a log of this deployment with {few:,.0f} to {many:,.0f} sequences of "
        f"{short:,.0f} to {long:,.0f} tokens"
    )
    if not batch:
        return f"{whole}; plans look at any load, and have the intervals beyond those."
    if not logged.octaves_beyond(batch, context):
        return f"{whole}; the load asked about is among those."
    return f"{whole}; {batch:,.0f} of {context:,.0f} are beyond those, and the intervals wider."


def engine_misses(
    deployment: Deployment, batch: float = 0.0, context: float = 0.0
) -> Mapping[str, float]:
    """Log standard deviation of the errors of the deployment's engine end to end, by metric. [1]

    Args:
        deployment: With measured kernels.
        batch, context: Sequences of a decode step, and what each sees; 0 for any. [1] [token]
    """
    costs = deployment.engine_costs
    between = float(costs.tpot_sd(batch, context)) if batch else costs.tpot_log_sd
    return {"ttft_s": costs.ttft_log_sd, "tpot_s": between}
