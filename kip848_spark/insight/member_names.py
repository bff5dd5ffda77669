"""Names by which people know the members of a group.

A member id is often a random UUID, and a client that restarts gets another one. What people know is
the instance id or ``client.id``, and the host.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any, NamedTuple

_SHORTEST = 6
"""The smallest number of characters of a shortened member id."""
_LONGEST = 40
"""The largest number of characters of a name."""
_END = datetime.max.replace(tzinfo=UTC)

_KINDS = (
    (re.compile(r"rdkafka$"), "librdkafka"),
    (re.compile(r"kafka-python"), "kafka-python"),
    (re.compile(r"(?i)sarama"), "Sarama"),
    (re.compile(r"consumer-.+-\d+$"), "a Java client"),
)
"""Default client ids of Kafka clients, which suggest the library."""


class MemberIdentity(NamedTuple):
    """What identifies a member. ``host`` has no leading slash."""

    member_id: str
    instance_id: str | None
    client_id: str
    host: str


class MemberNames:
    """Names for the members in ``rows`` (of `member_history` or `members`).

    Two member ids are taken for the same client if they have the same instance id, or the same
    client id and host, and never existed at the same time: then the client has restarted. Both have
    the same name. Different clients have different names: the instance id or client id, with the
    host if the id alone is ambiguous, and otherwise with the start of the member id.
    """

    def __init__(self, rows: Iterable[Mapping[str, Any]]) -> None:
        self._members: dict[str, MemberIdentity] = {}
        spans: dict[str, tuple[datetime, datetime]] = {}
        for row in rows:
            name = row["member_id"]
            self._members[name] = MemberIdentity(
                name,
                row["instance_id"],
                row["client_id"] or "",
                (row["client_host"] or "").removeprefix("/"),
            )
            if "valid_from" in row:
                start, end = spans.get(name, (row["valid_from"], row["valid_from"]))
                spans[name] = min(start, row["valid_from"]), max(end, row["valid_to"] or _END)
        self._client = self._clients(spans)
        self._name = self._choose_names()

    def name(self, member_id: str) -> str:
        """The name of a member; the member id if nothing else is known."""
        return self._name.get(member_id) or shorten(member_id)

    def client(self, member_id: str) -> str:
        """A text that is equal for the member ids of the same client."""
        return self._client.get(member_id, member_id)

    def about(self, member_id: str) -> str:
        """What is known besides the name, for parentheses: host, client id, and the library, where
        a default client id suggests one. Empty if nothing is known."""
        member = self._members.get(member_id)
        if member is None:
            return ""
        shown = self.name(member_id)
        words = [member.host] if member.host and member.host not in shown else []
        if member.client_id and shorten(member.client_id) not in shown:
            words.append(f"client id {shorten(member.client_id)}")
        for pattern, library in _KINDS:
            if pattern.match(member.client_id):
                words.append(f"{library}, to judge by its client id")
                break
        return ", ".join(words)

    def full(self, member_id: str) -> str:
        """The name, and in parentheses what else is known."""
        about = self.about(member_id)
        return f"{self.name(member_id)} ({about})" if about else self.name(member_id)

    def described(self, member_id: str) -> dict[str, str | None]:
        """The member as plain values."""
        member = self._members.get(member_id, MemberIdentity(member_id, None, "", ""))
        return {
            "member_id": member_id,
            "name": self.name(member_id),
            "instance_id": member.instance_id,
            "client_id": member.client_id or None,
            "host": member.host or None,
        }

    def _clients(self, spans: Mapping[str, tuple[datetime, datetime]]) -> dict[str, str]:
        groups: dict[str, list[MemberIdentity]] = {}
        for member in self._members.values():
            key = member.instance_id or f"{member.client_id}\0{member.host}"
            groups.setdefault(key, []).append(member)
        found: dict[str, str] = {}
        for key, members in groups.items():
            known = all(member.member_id in spans for member in members)
            times = sorted(spans[member.member_id] for member in members) if known else []
            apart = all(a[1] <= b[0] for a, b in pairwise(times))
            one = len(members) == 1 or (known and apart)
            found |= {m.member_id: key if one else m.member_id for m in members}
        return found

    def _choose_names(self) -> dict[str, str]:
        names: dict[str, str] = {}
        for form in (self._by_id, self._by_host, self._by_member_id):
            if len(names) == len(self._members):
                break
            clients: dict[str, set[str]] = {}
            made = form()
            for member_id, text in made.items():
                clients.setdefault(text, set()).add(self._client[member_id])
            for member_id, text in made.items():
                if text and member_id not in names and len(clients[text]) == 1:
                    names[member_id] = text
        return names

    def _by_id(self) -> dict[str, str]:
        return {m.member_id: shorten(_known_as(m)) for m in self._members.values()}

    def _by_host(self) -> dict[str, str]:
        return {
            m.member_id: f"{shorten(m.client_id)}@{m.host}" if m.client_id and m.host else ""
            for m in self._members.values()
        }

    def _by_member_id(self) -> dict[str, str]:
        short = _unique_starts(_own_parts(self._members.values()))
        return {
            m.member_id: " ".join(filter(None, (shorten(m.client_id), f"[{short[m.member_id]}]")))
            for m in self._members.values()
        }


def shorten(text: str, longest: int = _LONGEST) -> str:
    """``text``, without its middle if it is longer than ``longest``."""
    if len(text) <= longest:
        return text
    end = (longest - 1) // 2 + (longest - 1) % 2
    return f"{text[: longest - 1 - end]}…{text[-end:]}"


def _known_as(member: MemberIdentity) -> str:
    """The instance id of a static member, unless its client id says the same in fewer letters."""
    if member.instance_id and not (
        member.client_id and member.instance_id.endswith(member.client_id)
    ):
        return member.instance_id
    return member.client_id


def _own_parts(members: Collection[MemberIdentity]) -> dict[str, str]:
    """The member ids without the client id, with which brokers and some clients begin them; whole
    ones of a client id of which two members would have the same part."""
    prefixes = {m.member_id: f"{m.client_id}-" if m.client_id else "" for m in members}
    parts = {id_: id_.removeprefix(prefix) for id_, prefix in prefixes.items()}
    times = Counter((prefixes[id_], part) for id_, part in parts.items())
    whole = {prefix for (prefix, part), count in times.items() if count > 1 or not part}
    return {id_: id_ if prefixes[id_] in whole else part for id_, part in parts.items()}


def _unique_starts(ids: Mapping[str, str]) -> dict[str, str]:
    """The shortest start of each text that no other text has."""
    ordered = sorted(ids.values())
    shortest = {}
    for before, text, after in zip(["", *ordered], ordered, [*ordered[1:], ""], strict=False):
        length = max(_SHORTEST, 1 + max(_shared(text, before), _shared(text, after)))
        shortest[text] = text[:length]
    return {name: shortest[text] for name, text in ids.items()}


def _shared(a: str, b: str) -> int:
    """The number of characters at the start that two texts share."""
    return next(
        (n for n, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b))
    )
