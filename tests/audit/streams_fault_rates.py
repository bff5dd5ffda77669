"""How many faults put into logs of streams groups the audit finds.

    python -m tests.audit.streams_fault_rates 100 [static]

prints a Markdown table with the given number of instances of each kind of fault; with ``static``,
only in groups with static members.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from tests.audit.fault_rates import FaultyLog, rate
from tests.audit.faults.streams import STREAMS_FAULTS
from tests.audit.streams_logs import faulty_logs, static_logs


def main(instances: int, logs: Sequence[FaultyLog]) -> None:
    """Print the table, and the total."""
    injected = found = 0
    print("| fault | instances | found | checks |")
    print("|---|---|---|---|", flush=True)
    for name, fault in STREAMS_FAULTS.items():
        result = rate(name, fault, instances, logs)
        checks = ", ".join(check for check, _ in result.checks.most_common())
        shown = name.replace("_", " ")
        print(f"| {shown} | {result.injected} | {result} | {checks} |", flush=True)
        for missed in result.missed[:5]:
            print(f"  missed: {name} {missed}", file=sys.stderr, flush=True)
        injected, found = injected + result.injected, found + result.found
    print(f"{found} of {injected}")


if __name__ == "__main__":
    main(int(sys.argv[1]), static_logs() if "static" in sys.argv[2:] else faulty_logs())
