"""All figures of speed in one run, with the table of them at the end. Run by `make bench`; prints, asserts nothing."""

import time

import bench_check
import bench_commits
import bench_features
import bench_growth
import bench_large
import bench_open_loop
import bench_open_streams
import bench_servers
import bench_timers
import bench_turns
from figures import Figure, show_table

BENCHMARKS = (
    bench_turns,
    bench_commits,
    bench_features,
    bench_open_loop,
    bench_open_streams,
    bench_timers,
    bench_growth,
    bench_large,
    bench_servers,
    bench_check,
)


def main() -> None:
    """Run the benchmarks one after the other; print the table also of an interrupted run."""
    figures: list[Figure] = []
    begun = time.monotonic()
    try:
        for benchmark in BENCHMARKS:
            print(f"\n== {benchmark.__name__} (after {time.monotonic() - begun:.0f} s)", flush=True)
            figures += benchmark.measure()
    finally:
        show_table(figures)


if __name__ == "__main__":
    main()
