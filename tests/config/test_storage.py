"""One section of settings for both that go to an object store."""

from __future__ import annotations

import pytest

from kip848_spark.config.settings import Settings
from kip848_spark.config.storage import StorageSettings
from kip848_spark.errors import UsageError

MINIO = {
    "aws_access_key_id": "kip",
    "aws_secret_access_key": "${STORE_SECRET}",
    "aws_region": "eu-central-1",
    "aws_endpoint_url": "http://127.0.0.1:9000",
    "aws_allow_http": "true",
}


@pytest.fixture(autouse=True)
def secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STORE_SECRET", "open sesame")


def test_both_are_served() -> None:
    settings = StorageSettings(MINIO)
    assert settings.delta({}) == MINIO | {"aws_secret_access_key": "open sesame"}
    # By the documents of Hadoop's S3A connector.
    assert settings.hadoop({}) == {
        "fs.s3a.access.key": "kip",
        "fs.s3a.secret.key": "open sesame",
        "fs.s3a.endpoint.region": "eu-central-1",
        "fs.s3a.endpoint": "http://127.0.0.1:9000",
        "fs.s3a.connection.ssl.enabled": "false",
        "fs.s3a.path.style.access": "true",
    }


def test_a_prefix_is_for_one_alone() -> None:
    settings = StorageSettings(
        {
            "aws_virtual_hosted_style_request": "true",
            "hadoop.fs.s3a.connection.maximum": "50",
            "delta.aws_conditional_put": "etag",
        }
    )
    common = {"aws_virtual_hosted_style_request": "true"}
    assert settings.delta({}) == common | {"aws_conditional_put": "etag"}
    assert settings.hadoop({}) == {
        "fs.s3a.path.style.access": "false",
        "fs.s3a.connection.maximum": "50",
    }


@pytest.mark.parametrize("endpoint", ["minio:9000", "127.0.0.1:9000", "minio", "s3://minio:9000"])
def test_an_endpoint_is_a_url(endpoint: str) -> None:
    for settings, environment in (
        (StorageSettings({"aws_endpoint_url": endpoint}), {}),
        (StorageSettings(), {"AWS_ENDPOINT_URL": endpoint}),
    ):
        for read in (settings.delta, settings.hadoop):
            with pytest.raises(UsageError, match=f"is not a URL: {endpoint}"):
                read(environment)


def test_the_environment_is_the_default() -> None:
    environment = {
        "AWS_ACCESS_KEY_ID": "of the environment",
        "AWS_SECRET_ACCESS_KEY": "x",
        "AWS_SESSION_TOKEN": "y",
        "AWS_DEFAULT_REGION": "eu-west-1",
        "HOME": "/",
    }
    assert StorageSettings().delta(environment) == {
        "aws_access_key_id": "of the environment",
        "aws_secret_access_key": "x",
        "aws_session_token": "y",
        "aws_region": "eu-west-1",
    }
    assert StorageSettings().hadoop({}) == {}
    # A token belongs to its key, and is not put beside another.
    written = StorageSettings(MINIO).hadoop(environment)
    assert "fs.s3a.session.token" not in written
    assert written["fs.s3a.access.key"] == "kip"
    assert written["fs.s3a.endpoint.region"] == "eu-central-1"


@pytest.mark.parametrize(
    "name",
    ["aws_secret_access_key", "aws_session_token", "hadoop.fs.s3a.secret.key",
     "hadoop.fs.azure.account.key.x.dfs.core.windows.net"],
)  # fmt: skip
def test_a_secret_is_never_text(name: str) -> None:
    with pytest.raises(UsageError, match="must not be in plain text") as refused:
        StorageSettings({name: "hunter2"})
    assert "hunter2" not in str(refused.value)


def test_a_name_that_would_do_nothing_is_refused() -> None:
    with pytest.raises(UsageError, match="aws_endpoint_uri"):
        StorageSettings({"aws_endpoint_uri": "x"})


def test_a_variable_that_is_not_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("STORE_SECRET")
    with pytest.raises(UsageError, match="STORE_SECRET"):
        StorageSettings(MINIO).delta({})


def test_shown_masked_and_read_as_toml_has_it() -> None:
    settings = Settings.model_validate({"storage": MINIO | {"aws_allow_http": True}})
    shown = settings.shown()["storage"]
    assert shown["aws_allow_http"] == "true"
    assert shown["aws_secret_access_key"] == "********"
    assert shown["aws_access_key_id"] == "kip"
