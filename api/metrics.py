"""What a server counts of itself, in the form that Prometheus reads. Nothing in it names users, sessions or texts."""

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from msgspec import Struct
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.metrics_core import CounterMetricFamily
from prometheus_client.registry import Collector

from runtime.ports import Purpose, Usage
from store.retention import Drop

_TURN_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120)


class Timed(Struct):
    """What comes of a turn."""

    outcome: str = "refused"


class Counted(Struct):
    """What comes of an analyst's question."""

    outcome: str = "failed"


class Metrics:
    """The counts of one application; the bounds of each are the routes, codes and purposes there are."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._requests = self._counter("http_requests", "Requests that came to a route", "method", "route", "status")
        self._errors = self._counter("errors", "Requests that failed", "code")
        self._turns = self._counter("turns", "Turns that were run", "outcome")
        self._turn_s = Histogram(
            "cuebook_turn_seconds",
            "How long a turn took, without its commit",
            buckets=_TURN_S,
            registry=self._registry,
        )
        self._calls = self._counter("model_calls", "Calls of language models", "purpose", "outcome")
        self._tokens = self._counter("model_tokens", "Tokens of language models", "direction")
        self._queries = self._counter("analytics_queries", "Questions of analysts that were asked", "outcome")
        self._bringing_s = self._counter("analytics_bringing_seconds", "Spent on bringing analytics up to date")
        self._dropped = self._counter("retention_sessions", "Sessions that retention dropped something of", "drop")

    def watch(self, name: str, about: str, value: Callable[[], float]) -> None:
        """Shows a value as it is when somebody looks."""
        Gauge(f"cuebook_{name}", about, registry=self._registry).set_function(value)

    def watch_total(self, name: str, about: str, value: Callable[[], float]) -> None:
        """Shows what somebody else counts, as it is when somebody looks."""
        self._registry.register(_Total(f"cuebook_{name}", about, value))

    def count_request(self, method: str, route: str, status: int) -> None:
        """A request was answered."""
        self._requests.labels(method, route, str(status)).inc()

    def count_error(self, code: str) -> None:
        """A request failed."""
        self._errors.labels(code).inc()

    @contextmanager
    def timing(self) -> Iterator[Timed]:
        """A turn runs: it is `done`, or failed with a code, whichever is set meanwhile."""
        timed, begun = Timed(), time.perf_counter()
        try:
            yield timed
        finally:
            self._turns.labels(timed.outcome).inc()
            self._turn_s.observe(time.perf_counter() - begun)

    def count_call(self, purpose: Purpose, *, done: bool, usage: Usage | None) -> None:
        """A call of a language model has ended."""
        self._calls.labels(purpose, "done" if done else "failed").inc()
        if usage is not None:
            self._tokens.labels("input").inc(usage.input_tokens)
            self._tokens.labels("output").inc(usage.output_tokens)

    def count_dropped(self, drop: Drop, sessions: int) -> None:
        """Retention dropped the text of sessions, or all of them."""
        self._dropped.labels(drop).inc(sessions)

    @contextmanager
    def counting_query(self) -> Iterator[Counted]:
        """An analyst's question is asked: it is `done`, `refused` or `stopped`, whichever is set meanwhile."""
        counted = Counted()
        try:
            yield counted
        finally:
            self._queries.labels(counted.outcome).inc()

    def count_bringing(self, seconds: float) -> None:
        """An analytics file was brought up to date."""
        self._bringing_s.inc(seconds)

    def exposed(self) -> bytes:
        """All of it, as text."""
        return generate_latest(self._registry)

    def _counter(self, name: str, about: str, *labels: str) -> Counter:
        return Counter(f"cuebook_{name}", about, labels, registry=self._registry)


class _Total(Collector):
    """A count that is kept elsewhere."""

    def __init__(self, name: str, about: str, value: Callable[[], float]) -> None:
        self._name = name
        self._about = about
        self._value = value

    def collect(self) -> Iterable[CounterMetricFamily]:
        """What Prometheus asks for."""
        yield CounterMetricFamily(self._name, self._about, value=self._value())
