"""Hadoop's settings of a store, as delta-rs names them (by the documents of both)."""

from __future__ import annotations

from kip848_spark.config.hadoop_stores import options_of_hadoop


def options(uri: str, **settings: str) -> dict[str, str]:
    """``settings`` with underlines for dots."""
    named = {name.replace("_", "."): value for name, value in settings.items()}
    return options_of_hadoop(uri, named.get, named.get)


def test_of_amazon_only_the_region_and_the_keys_are_named() -> None:
    found = options(
        "s3a://lakes/kip848",
        fs_s3a_endpoint="s3.amazonaws.com",
        fs_s3a_endpoint_region="eu-central-1",
        fs_s3a_access_key="a",
        fs_s3a_secret_key="s",
        fs_s3a_session_token="t",
    )
    assert found == {
        "aws_region": "eu-central-1",
        "aws_access_key_id": "a",
        "aws_secret_access_key": "s",
        "aws_session_token": "t",
    }


def test_the_role_of_a_machine_needs_no_setting() -> None:
    assert options("s3a://lakes/kip848") == {}


def test_a_bucket_has_settings_of_its_own() -> None:
    settings = {"fs_s3a_access_key": "all", "fs_s3a_bucket_lakes_access_key": "its own"}
    assert options("s3a://lakes/kip848", **settings) == {"aws_access_key_id": "its own"}
    assert options("s3a://others/kip848", **settings) == {"aws_access_key_id": "all"}


def test_another_server() -> None:
    plain = {"aws_endpoint_url": "http://127.0.0.1:9000", "aws_allow_http": "true"}
    endpoint = "127.0.0.1:9000"
    assert options("s3a://b", fs_s3a_endpoint=f"http://{endpoint}") == plain
    ssl = "fs_s3a_connection_ssl_enabled"
    assert options("s3a://b", fs_s3a_endpoint=endpoint, **{ssl: "false"}) == plain
    encrypted = {"aws_endpoint_url": "https://127.0.0.1:9000"}
    assert options("s3a://b", fs_s3a_endpoint=endpoint) == encrypted


def test_azure_and_google() -> None:
    account = "fs.azure.account.key.some.dfs.core.windows.net"
    found = options_of_hadoop(
        "abfss://lakes@some.dfs.core.windows.net/kip848", {}.get, {account: "key"}.get
    )
    assert found == {"azure_storage_account_key": "key"}
    found = options("gs://b/kip848", fs_gs_auth_service_account_json_keyfile="/key.json")
    assert found == {"google_service_account": "/key.json"}
