"""Waiting times that queueing theory knows in closed form; the serving simulation is held to them.

``rate`` are arrivals a second, Poisson; utilisation must lie below 1.
docs/method/serving-simulation.md
"""

from __future__ import annotations

from capplan.errors import RequestError


def wait_mg1_s(rate_per_s: float, service_mean_s: float, service_second_moment_s2: float) -> float:
    """Return the mean wait in the queue of M/G/1: ``rate * E[S^2] / (2 (1 - rate E[S]))``.

    Parameters
    ----------
    rate_per_s
        Poisson arrivals.
    service_mean_s, service_second_moment_s2
        ``E[S]`` and ``E[S^2]`` of a request's service.

    Raises
    ------
    RequestError
        If more arrives than can be served.

    Notes
    -----
    Pollaczek and Khinchine; any order of service that does not look at the length.
    """
    load = _stable(rate_per_s * service_mean_s)
    return rate_per_s * service_second_moment_s2 / (2.0 * (1.0 - load))


def wait_md1_s(rate_per_s: float, service_s: float) -> float:
    """Return the mean wait in the queue of M/D/1: every service takes the same."""
    return wait_mg1_s(rate_per_s, service_s, service_s**2)


def wait_mmc_s(rate_per_s: float, service_mean_s: float, servers: int) -> float:
    """Return the mean wait in the queue of M/M/c (Erlang C).

    Parameters
    ----------
    servers
        Alike, >= 1; service is exponential.
    """
    offered = rate_per_s * service_mean_s
    load = _stable(offered / servers)
    blocked = 1.0  # Erlang B by recursion: no factorial overflows
    for busy in range(1, servers + 1):
        blocked = offered * blocked / (busy + offered * blocked)
    delayed = blocked / (1.0 - load * (1.0 - blocked))
    return delayed * service_mean_s / (servers * (1.0 - load))


def sojourn_processor_sharing_s(rate_per_s: float, service_s: float) -> float:
    """Return the mean time in M/G/1 with processor sharing, for a request of that length.

    ``service_s / (1 - load)``, whatever the distribution of the lengths, where ``service_s`` is
    also the mean.
    """
    return service_s / (1.0 - _stable(rate_per_s * service_s))


def _stable(load: float) -> float:
    if not 0.0 <= load < 1.0:
        raise RequestError(
            f"A load of {load:.3g} services arrives while one is served: the queue grows without "
            "end and has no mean.",
            "Lower the rate, or serve faster.",
        )
    return load
