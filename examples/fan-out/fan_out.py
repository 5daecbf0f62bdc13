"""Runs the topology of this directory, and shows what a filter on the master does for sites with slow links."""

from __future__ import annotations

from pathlib import Path

from dumpfilter.testbed import Lag, up

TOPOLOGY = Path(__file__).with_name("topology.toml")
SITES = ("everything", "shop", "warehouse")
WAIT = 300.0
KIB = 1024


def main() -> None:
    """Run the workload to its end, let all sites catch up, check the law, and print the report."""
    with up(TOPOLOGY, hold=True) as topology:
        topology.release()  # the load begins when all sites are connected
        topology.wait_done(WAIT)
        behind: dict[str, Lag] = {name: topology[name].lag for name in SITES}
        topology.wait_caught_up(WAIT)
        topology.check(WAIT)
        report = topology.report()
    print("site         sent     saved     behind at the end of the load")
    for name in SITES:
        sent = report["links"][f"m:{name}"]["bytes_to_target"]
        saved = report["nodes"][name]["saved"]
        print(f"{name:10} {sent // KIB:5} KiB {saved // KIB:5} KiB     {behind[name].bytes // KIB:5} KiB")
    print("law: every site has what its filter keeps of the source's data, and the source's place and GTIDs")


if __name__ == "__main__":
    main()
