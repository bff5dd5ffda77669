"""A Ctrl-C or SIGTERM that arrives while py4j talks to the JVM. Needs no session."""

from __future__ import annotations

import pytest
from py4j.protocol import Py4JError

from kip848_spark.errors import Terminated
from kip848_spark.spark.error_messages import translate_spark_errors


@pytest.mark.parametrize("interrupt", [KeyboardInterrupt, Terminated])
@pytest.mark.parametrize("error", [Py4JError, ConnectionResetError])
def test_an_error_that_replaced_the_interrupt_is_none_of_spark(
    interrupt: type[KeyboardInterrupt], error: type[Exception]
) -> None:
    """py4j closes its connection then, and says that it was not connected."""

    def ask() -> None:
        try:
            raise interrupt
        except KeyboardInterrupt:
            raise error("Gateway must be connected to send cancel cmd.")  # noqa: B904

    with pytest.raises(interrupt), translate_spark_errors():
        ask()
