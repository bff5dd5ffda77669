"""The names that stay in an anonymized capture: those that Kafka or a client library defines, and
random ids.

A name of a user must not be among them by accident. So a field of which users may choose the
content, such as the assignor, keeps only the names that are listed here."""

from __future__ import annotations

import re

MEMBER, PROCESS, CLIENT = "member", "process", "client"
ASSIGNOR, PROTOCOL_TYPE, SUBTOPOLOGY = "assignor", "protocol-type", "subtopology"
CONFIG_KEY, CONFIG_VALUE = "config-key", "config-value"

_UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"
_LETTER = r"[A-Za-z0-9_/+-]"
_UUID_IN_BASE64 = (
    r"(?!-)(?=[^/+]*$|[^_-]*$)(?=.*[a-z])(?=.*[A-Z])"
    rf"{_LETTER}{{8}}[QRST]{_LETTER}[CGKOSWaeimquy26+-]{_LETTER}{{10}}[AQgw]"
)
"""A random UUID (version 4) as clients write it, in either alphabet: six of its bits are fixed, and
four after it are zero."""
_ASSIGNORS = (
    "range", "roundrobin", "sticky", "cooperative-sticky", "stream", "uniform", "simple",
    "default", "eager", "compatible", "sessioned", "v0", "v1",
)  # fmt: skip
"""Of consumers, Streams, share groups, Connect and the schema registry."""
_TOPIC_SETTINGS = (
    "cleanup.policy", "compression.gzip.level", "compression.lz4.level", "compression.type",
    "compression.zstd.level", "delete.retention.ms", "file.delete.delay.ms", "flush.messages",
    "flush.ms", "index.interval.bytes", "local.retention.bytes", "local.retention.ms",
    "max.compaction.lag.ms", "max.message.bytes", "message.downconversion.enable",
    "message.format.version", "message.timestamp.after.max.ms", "message.timestamp.before.max.ms",
    "message.timestamp.difference.max.ms", "message.timestamp.type", "min.cleanable.dirty.ratio",
    "min.compaction.lag.ms", "min.insync.replicas", "preallocate", "remote.log.copy.disable",
    "remote.log.delete.on.disable", "remote.storage.enable", "retention.bytes", "retention.ms",
    "segment.bytes", "segment.index.bytes", "segment.jitter.ms", "segment.ms",
    "unclean.leader.election.enable",
)  # fmt: skip
_SETTING_WORDS = (
    "true", "false", "compact", "delete", "compact,delete", "delete,compact", "CreateTime",
    "LogAppendTime", "producer", "uncompressed", "gzip", "snappy", "lz4", "zstd",
)  # fmt: skip

_DEFAULT_CLIENTS = r"rdkafka|sarama|kgo|kafkajs|(kafka-python|aiokafka)-[0-9]+(\.[0-9]+)*"
"""The client ids of libraries whose users have set none. They name the library only, and
`kip848 readiness` guesses the library by them."""


def _one_of(names: tuple[str, ...]) -> str:
    return "|".join(map(re.escape, names))


_UNCHANGED = {
    MEMBER: re.compile(f"{_UUID}|{_UUID_IN_BASE64}"),
    PROCESS: re.compile(_UUID),
    CLIENT: re.compile(_DEFAULT_CLIENTS),
    ASSIGNOR: re.compile(_one_of(_ASSIGNORS)),
    PROTOCOL_TYPE: re.compile("consumer|connect|sr"),
    SUBTOPOLOGY: re.compile("[0-9]+"),
    CONFIG_KEY: re.compile(_one_of(_TOPIC_SETTINGS)),
    CONFIG_VALUE: re.compile(rf"-?[0-9]+(\.[0-9]+)?|{_one_of(_SETTING_WORDS)}"),
}


def stays(category: str, name: str) -> bool:
    """Whether a name of this category needs no replacement. The empty name never does."""
    kept = _UNCHANGED.get(category)
    return not name or (kept is not None and kept.fullmatch(name) is not None)
