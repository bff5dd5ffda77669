"""Offsets committed inside transactions, by producers that live beside a consumer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Producer, TopicPartition

_TIMEOUT = 30.0


class Transactions:
    """The transactional producers of one member, one for each transactional id."""

    def __init__(self, bootstrap: str, config: Mapping[str, Any]) -> None:
        self._settings = {**config, "bootstrap.servers": bootstrap}
        self._producers: dict[str, Producer] = {}

    def send_offsets(
        self,
        transactional_id: str,
        consumer: Consumer,
        offsets: list[TopicPartition],
        commit: bool,
    ) -> None:
        """One whole transaction that holds nothing but offsets, then committed or aborted."""
        producer = self._producer(transactional_id)
        producer.begin_transaction()
        producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), _TIMEOUT)
        if commit:
            producer.commit_transaction(_TIMEOUT)
        else:
            producer.abort_transaction(_TIMEOUT)

    def _producer(self, transactional_id: str) -> Producer:
        from confluent_kafka import Producer

        if transactional_id not in self._producers:
            producer = Producer({**self._settings, "transactional.id": transactional_id})
            producer.init_transactions(_TIMEOUT)
            self._producers[transactional_id] = producer
        return self._producers[transactional_id]
