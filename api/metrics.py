"""Prometheus metrics of a server. They never contain users, sessions or texts."""

from collections.abc import Callable, Iterable
from functools import cache

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.metrics_core import CounterMetricFamily
from prometheus_client.registry import Collector

from runtime.state.ports import Purpose, Usage

_TURN_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120)


class Metrics:
    """The metrics of one application; the number of labels is bounded by the routes, codes and purposes."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        # cached, because looking up the counter of labels takes longer than counting
        self.requests = cache(
            self._counter("http_requests", "Requests by route and status", "method", "route", "status").labels
        )
        self.errors = self._counter("errors", "Failed requests", "code")
        # done: committed; refused; or an error code
        self.turns = cache(self._counter("turns", "Turns by outcome", "outcome").labels)
        self.turn_seconds = Histogram(
            "cuebook_turn_seconds", "Duration of a turn without its commit", buckets=_TURN_S, registry=self._registry
        )
        self._calls = self._counter("model_calls", "Calls of language models", "purpose", "outcome")
        self._tool_calls = self._counter("tool_calls", "Calls of tools", "outcome")
        self._tokens = self._counter("model_tokens", "Tokens of language models", "direction")
        self.queries = self._counter("analytics_queries", "Analytics queries", "outcome")
        self.refresh_seconds = self._counter("analytics_refresh_seconds", "Time spent on refreshing the analytics")
        self.retention = self._counter("retention_sessions", "Sessions redacted or deleted by retention", "action")
        self.webhook_attempts = self._counter(
            "webhook_attempts", "Attempts to deliver to webhooks, by the status of the delivery after them", "status"
        )
        self.timer_attempts = self._counter("timer_attempts", "Attempts to fire timers, by their outcome", "outcome")
        self.reminders = self._counter("reminders", "Reminders to browsers", "outcome")

    def watch(self, name: str, about: str, value: Callable[[], float]) -> None:
        """Expose a gauge whose value is read when the metrics are collected."""
        Gauge(f"cuebook_{name}", about, registry=self._registry).set_function(value)

    def watch_total(self, name: str, about: str, value: Callable[[], float]) -> None:
        """Expose a total that is counted elsewhere and read when the metrics are collected."""
        self._registry.register(_Total(f"cuebook_{name}", about, value))

    def count_call(self, purpose: Purpose, *, done: bool, usage: Usage | None) -> None:
        """Count a finished call of a language model."""
        self._calls.labels(purpose, "done" if done else "failed").inc()
        if usage is not None:
            self._tokens.labels("input").inc(usage.input_tokens)
            self._tokens.labels("output").inc(usage.output_tokens)

    def count_tool_call(self, *, done: bool) -> None:
        """Count a finished call of a tool."""
        self._tool_calls.labels("done" if done else "failed").inc()

    def exposition(self) -> bytes:
        """Return all metrics in the Prometheus text format."""
        return generate_latest(self._registry)

    def _counter(self, name: str, about: str, *labels: str) -> Counter:
        return Counter(f"cuebook_{name}", about, labels, registry=self._registry)


class _Total(Collector):
    """A total that is counted elsewhere."""

    def __init__(self, name: str, about: str, value: Callable[[], float]) -> None:
        self._name = name
        self._about = about
        self._value = value

    def collect(self) -> Iterable[CounterMetricFamily]:
        """Yield the metric, as Prometheus expects of a collector."""
        yield CounterMetricFamily(self._name, self._about, value=self._value())
