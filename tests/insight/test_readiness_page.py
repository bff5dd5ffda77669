"""The table of rules in docs/readiness.md. KIP848_UPDATE_DOCUMENTATION=1 writes it anew."""

from __future__ import annotations

import os
import re
import tomllib

from kip848_spark.insight.readiness_rules import RULES_FILE, read_rules
from tests.documentation import ROOT

PAGE = ROOT / "docs" / "readiness.md"
_TABLE = re.compile(r"(?<=<!-- rules -->\n)(.*?)(?=<!-- /rules -->)", re.DOTALL)
_TITLES = {
    "group": "Judged for each group:",
    "cluster": "Judged once, for the cluster:",
    "checklist": "In the checklist for the group's owner:",
}


def rule_tables() -> str:
    """The tables as the rules of the file give them."""
    rules = tomllib.loads((ROOT / RULES_FILE).read_text(encoding="utf-8"))["rule"]
    lines = [""]
    for subject, title in _TITLES.items():
        lines += [
            title,
            "",
            "| rule | severity | Kafka | meaning | source |",
            "|---|---|---|---|---|",
        ]
        for rule in rules:
            if rule["subject"] == subject:
                lines.append(
                    f"| `{rule['id']}` | {rule['severity']} | {_releases(rule)} | "
                    f"{rule['means']} | {', '.join(rule['source'])} |"
                )
        lines.append("")
    return "\n".join(lines)


def _releases(rule: dict[str, object]) -> str:
    fixed = rule.get("fixed_in")
    parts = [str(rule["brokers"])] if "brokers" in rule else []
    parts += [f"since {rule['since']}"] if "since" in rule else []
    parts += [f"fixed in {', '.join(fixed)}"] if isinstance(fixed, list) else []
    return ", ".join(parts) or "all"


def test_the_page_lists_every_rule() -> None:
    page = PAGE.read_text(encoding="utf-8")
    if os.environ.get("KIP848_UPDATE_DOCUMENTATION"):
        PAGE.write_text(_TABLE.sub(lambda _: rule_tables(), page), encoding="utf-8")
        page = PAGE.read_text(encoding="utf-8")
    found = _TABLE.search(page)
    assert found is not None
    assert found[0] == rule_tables()


def test_the_rule_of_the_page_is_valid() -> None:
    page = PAGE.read_text(encoding="utf-8")
    (example,) = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    sets = (ROOT / RULES_FILE).read_text(encoding="utf-8").split("# -- Groups to which")[0]
    (rule,) = read_rules(sets + example).rules
    assert rule.id == "KAFKA-12345"
