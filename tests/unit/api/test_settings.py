"""Settings: flags, environment, validation and secrets."""

import math
from typing import Any

import click
import pytest

from api.settings import Settings, load_settings, options
from calcgpt.base.errors import ConfigError


def test_a_flag_precedes_the_environment_and_that_the_default(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert load_settings({}).port == 8000
    monkeypatch.setenv("CALCGPT_PORT", "8001")
    assert load_settings({}).port == 8001
    assert load_settings({"port": 8002}).port == 8002


def test_lists_are_separated_by_commas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CALCGPT_API_KEYS", "one, two,")
    monkeypatch.setenv("CALCGPT_CORS_ORIGINS", "https://a.example,https://b.example")
    settings = load_settings({})
    assert [key.get_secret_value() for key in settings.api_keys] == ["one", "two"]
    assert settings.cors_origins == ("https://a.example", "https://b.example")


@pytest.mark.parametrize("value", ["", " ", ",", " , "])
def test_no_keys_are_not_taken_for_keys(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("CALCGPT_API_KEYS", value)
    with pytest.raises(ConfigError, match=r"CALCGPT_API_KEYS: contains nothing"):
        load_settings({})


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("CALCGPT_API_KEY", "CALCGPT_API_KEYS"),
        ("calcgpt_rate_limits", "CALCGPT_RATE_LIMIT"),
        ("CALCGPT_TRUSTED_PROXY", "CALCGPT_TRUSTED_PROXIES"),
    ],
)
def test_a_variable_that_is_no_setting_is_refused(
    monkeypatch: pytest.MonkeyPatch, name: str, nearest: str
) -> None:
    """It may be meant to keep others out."""
    monkeypatch.setenv("CALCGPT_CACHE", "folder")  # of what is proved
    load_settings({})
    monkeypatch.setenv(name, "secret")
    with pytest.raises(ConfigError, match=rf"{name.upper()}.*{nearest}") as error:
        load_settings({})
    assert "secret" not in str(error.value)


def test_secrets_are_not_shown() -> None:
    settings = load_settings({"api_keys": "key1,key2"})
    for text in (settings.model_dump_json(), repr(settings), str(settings)):
        assert "key1" not in text
        assert "key2" not in text


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"port": 70_000}, "--port: Input should be less than or equal to 65535"),
        ({"workers": 0}, "--workers: "),
        ({"deadline": 0}, "--deadline: "),
        ({"log_format": "xml"}, "--log-format: "),
        ({"drain": math.inf}, "--drain: "),
        ({"api_keys": ",,,"}, "--api-keys: contains nothing"),
        ({"api_keys": " "}, "--api-keys: contains nothing"),
        ({"trusted_proxies": "127.0.0.1,notanip"}, "--trusted-proxies: 'notanip' does not app"),
        ({"trusted_proxies": "127.0.0.9/8"}, "--trusted-proxies: 127.0.0.9/8 has host"),
        ({"trusted_proxies": "::1, *"}, "--trusted-proxies: * would let each client"),
        ({"cors_origins": "https://a b.example"}, "--cors-origins: 'https://a b.example' is not"),
        ({"cors_origins": "notaurl"}, "--cors-origins: 'notaurl' is not an origin"),
        ({"cors_origins": "https://a.example/path"}, "--cors-origins: 'https://a.example/path'"),
        ({"cors_origins": "https://me@a.example"}, "--cors-origins: 'https://me@a.example'"),
        ({"cors_origins": "https://a.example:port"}, "--cors-origins: 'https://a.example:port'"),
        ({"page_address": "example.org"}, "--page-address: 'example.org' is not the address"),
        ({"page_address": "https://me@a.example/"}, "--page-address: 'https://me@a.example/' is"),
        ({"page_address": "https://a.example/?q=1"}, "--page-address: 'https://a.example/?q=1' is"),
        ({"page_address": "https://a.example:x/"}, "--page-address: 'https://a.example:x/' is"),
        ({"page_address": "https://a.example/\n"}, "--page-address: 'https://a.example/\\n' is"),
        ({"page_address": f"https://a.example/{'x' * 3_000}"}, "--page-address: 'https://a.exam"),
        ({"rate_limit": "0/minute"}, "--rate-limit: '0/minute' allows no requests"),
        ({"rate_limit": "soon"}, "--rate-limit: 'soon' is not a rate, such as 600/minute"),
        ({"engine": "steam"}, "--engine: unknown engine 'steam'; valid names: auto, cases"),
        ({"port": 8001, "health_port": 8001}, "--health-port must differ from --port"),
    ],
)
def test_a_bad_value_is_one_line_that_names_the_flag(flags: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_settings(flags)
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


def test_origins_become_those_that_browsers_send() -> None:
    typed = "HTTPS://A.example:443,http://localhost:8080,http://[::1]:443,https://ä.example,*"
    sent = ("https://a.example", "http://localhost:8080", "http://[::1]:443")
    origins = load_settings({"cors_origins": typed}).cors_origins
    assert origins == (*sent, "https://xn--4ca.example", "*")


def test_proxies_are_addresses_or_networks() -> None:
    for proxies in ("10.0.0.0/8, ::1", "2001:DB8::/32,192.0.2.7/32", ""):
        assert load_settings({"trusted_proxies": proxies}).trusted_proxies == proxies


@pytest.mark.parametrize(
    ("name", "value"), [("CALCGPT_MAX_BODY", "many"), ("CALCGPT_RATE_LIMIT", "")]
)
def test_a_bad_variable_is_named(name: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(ConfigError, match=rf"^{name}: "):
        load_settings({})


def test_every_setting_is_an_option_with_help_and_its_default() -> None:
    by_name = {option.name: option for option in options({})}
    assert by_name.keys() == Settings.model_fields.keys()
    command = click.Command("serve", params=[*by_name.values()])
    text = " ".join(command.get_help(click.Context(command)).split())
    for name, field in Settings.model_fields.items():
        assert field.description, name
        assert f"--{name.replace('_', '-')}" in text
        if isinstance(field.default, int | float) and not isinstance(field.default, bool):
            assert f"[default: {field.default}]" in text
    with command.make_context("serve", ["--no-others", "--port", "1"]) as context:
        flags = {name: value for name, value in context.params.items() if value is not None}
    assert flags == {"others": False, "port": 1}


def test_both_ports_may_be_any_free_one() -> None:
    assert load_settings({"port": 0, "health_port": 0}).health_port == 0
