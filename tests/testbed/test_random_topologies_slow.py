"""A handful of random topologies with random faults. ``random_topologies`` runs more of them by hand."""

from __future__ import annotations

from pathlib import Path

import hypothesis
import pytest

from tests.testbed import random_topologies
from tests.testbed.random_topologies import Plan, plans, run

SIZES = (4, 5, 6)


@pytest.mark.parametrize("most", SIZES, ids=lambda most: f"up to {most} nodes")
def test_the_law_holds_after_random_faults(most: int) -> None:
    @hypothesis.settings(
        max_examples=1,
        phases=[hypothesis.Phase.generate],
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    @hypothesis.given(plans(most=most))
    def once(plan: Plan) -> None:
        run(plan)

    once()


def test_a_plan_survives_its_file() -> None:
    plan = hypothesis.find(
        plans(),
        lambda _: True,
        settings=hypothesis.settings(database=None, phases=[hypothesis.Phase.generate]),
    )
    assert Plan.from_json(plan.as_json()) == plan


def test_a_plan_whose_law_is_broken_fails(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def broken(plan: Plan) -> None:
        raise random_topologies.DumpfilterError("broken")

    monkeypatch.setattr(random_topologies, "run", broken)
    monkeypatch.setattr("sys.argv", ["random_topologies", "--runs", "2", "--failures", str(tmp_path)])
    assert random_topologies.main() == 2
    assert [path.name for path in sorted(tmp_path.iterdir())] == ["plan-1-1.json", "plan-1-2.json"]
