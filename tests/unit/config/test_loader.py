"""An invalid configuration is refused with the key and the reason."""

import json
from pathlib import Path

import pytest

from beacon_config import BeaconConfig, ConfigError, load_config
from beacon_contracts.tiers import JobClass

SHIPPED = Path(__file__).parents[3] / "config" / "beacon.toml"


class Copy:
    """A copy of the shipped file with one thing changed."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "beacon.toml"

    def write(self, old: str = "", new: str = "") -> Path:
        text = SHIPPED.read_text(encoding="utf-8")
        assert old in text, f"the shipped file no longer has {old!r}"
        self.path.write_text(text.replace(old, new, 1) if old else text + new, encoding="utf-8")
        return self.path

    def errors(self, old: str = "", new: str = "", environ: dict[str, str] | None = None) -> list[str]:
        self.write(old, new)
        with pytest.raises(ConfigError) as refused:
            load_config(self.path, environ or {})
        lines = str(refused.value).splitlines()
        assert all(line.startswith(f"{self.path}: ") for line in lines)
        return [line.removeprefix(f"{self.path}: ") for line in lines]


@pytest.fixture
def copy(tmp_path: Path) -> Copy:
    return Copy(tmp_path)


def shipped(environ: dict[str, str] | None = None) -> BeaconConfig:
    return load_config(SHIPPED, environ or {})


def test_a_model_can_name_the_field_of_the_request_size(copy: Copy) -> None:
    sizes = {name: model.size for name, model in shipped().models.items() if model.size is not None}
    assert sizes == {"music": "duration", "audio": "duration"}
    assert copy.errors('size = "duration"', 'size = ""') == [
        "models.music.size: String should have at least 1 character, not ''"
    ]


MUSIC = "[models.music]\n"


def test_a_model_can_have_an_input_schema_in_a_table_or_a_file(copy: Copy) -> None:
    seconds = 'properties = {seconds = {"$ref" = "#/$defs/s"}}, "$defs" = {s = {type = "number"}}'
    table = f'{MUSIC}input_schema = {{type = "object", {seconds}}}\n'
    config = load_config(copy.write(MUSIC, table), {})
    schema = config.models["music"].input_schema
    assert schema is not None
    assert schema["type"] == "object"
    copy.path.with_name("music.json").write_text(json.dumps(schema), encoding="utf-8")
    config = load_config(copy.write(MUSIC, MUSIC + 'input_schema = "music.json"\n'), {})
    assert config.models["music"].input_schema == schema


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ('{type = "text"}', "is not a JSON Schema: $.type: 'text' is not valid"),
        ('{"$ref" = "https://example.com/a.json"}', "refers to 'https://example.com/a.json'; only"),
        ('{"$ref" = "#/$defs/a"}', "refers to '#/$defs/a', which it does not have"),
        ('{"$ref" = "#"}', "refers to itself without end"),
        ('{"$id" = "https://example.com/"}', "has an $id"),
        ('{"$schema" = "http://json-schema.org/draft-04/schema#"}', "has another $schema"),
        ("{default = 2026-01-01}", "is not JSON"),
        ("[1]", "should be a table"),
        ('"absent.json"', "cannot be read: No such file or directory"),
        ('"beacon.toml"', "is not JSON"),
    ],
)
def test_an_unusable_input_schema_is_refused(copy: Copy, schema: str, reason: str) -> None:
    (error,) = copy.errors(MUSIC, f"{MUSIC}input_schema = {schema}\n")
    assert error.startswith("models.music.input_schema: ")
    assert reason in error


def test_the_shipped_file_has_the_documented_values() -> None:
    config = shipped()
    assert {name: tier.job_class for name, tier in config.tiers.items()} == {
        "admin": JobClass.HIGH,
        "creator": JobClass.HIGH,
        "premium": JobClass.MEDIUM,
        "supporter": JobClass.MEDIUM,
        "free": JobClass.LOW,
    }
    assert [tier.starvation_bound_s for tier in config.tiers.values()] == [30, 45, 60, 90, 120]
    assert [tier.starvation_weight for tier in config.tiers.values()] == [16, 8, 4, 2, 1]
    assert [(price.up_to_s, price.price) for price in config.skip_prices] == [
        (10, 1),
        (30, 3),
        (60, 5),
        (120, 10),
        (None, 15),
    ]
    assert list(config.runner.job_retry_delays_s) == [60, 120, 180]
    assert [step.name for step in config.features["full_pipeline"].steps] == [
        "prompt_enhancer",
        "fast_chat_llm",
        "image_gen",
        "model_3d_gen",
    ]


def test_region_names_are_case_insensitive_and_have_aliases() -> None:
    names = shipped().region_names
    assert (names["us"], names["us-east"], names["europe"], names["apac"]) == ("US", "US", "EU", "ASIA")


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (
            'dialect = "modal"',
            'dialect = "modl"',
            (
                "backends.us-1.dialect: should be 'modal', 'openai', 'execute', 'http', "
                "'async' or 'comfyui', not 'modl'"
            ),
        ),
        ("slots = 4", "slot = 4", "backends.us-1.slot: is not a known key (misspelled?)"),
        ("slots = 4", "slots = -1", "backends.us-1.slots: should be greater than or equal to 0, not -1"),
        (
            'region = "US"',
            'region = "MARS"',
            "backend us-1 is in region 'MARS', which is not in [regions]; add [regions.\"MARS\"]",
        ),
        ('group = "modal"', 'group = "aws"', "backend us-1 belongs to group 'aws', which is not in [groups]"),
        (
            'models = ["llama3.2-1b", "qwen2.5-1.5b"',
            'models = ["llama9", "llama3.2-1b", "qwen2.5-1.5b"',
            "backend us-1 serves model 'llama9', which is not in [models]; add [models.\"llama9\"]",
        ),
        (
            "[models.flux]",
            "[models.idle]\n[models.flux]",
            "model 'idle' is in [models], but no backend serves it",
        ),
        ("[regions.US]", "[regions.MARS]\n[regions.US]", "region MARS has no backend"),
        ('"eu-west"', '"US-East"', "regions US and EU have the same name 'us-east'"),
        (
            'model = "image_gen"',
            'model = "painter"',
            "feature full_pipeline: step image_gen needs 'painter', which is not in [models]",
        ),
        (
            'name = "image_gen"',
            'name = "fast_chat_llm"',
            "feature full_pipeline: two steps are named 'fast_chat_llm'",
        ),
        (
            'name = "image_gen"',
            'name = "image-gen"',
            "features.full_pipeline.steps[2].name: 'image-gen' cannot be referred to in templates: use",
        ),
        (
            'name = "image_gen"',
            'name = "input"',
            "features.full_pipeline.steps[2].name: 'input' is reserved for the job's input;",
        ),
        (
            'model = "image_gen", input',
            'model = "image_gen", attempts = 0, input',
            "features.full_pipeline.steps[2].attempts: should be greater than or equal to 1, not 0",
        ),
        (
            "limit = 5",
            "limit = 0",
            "models.prompt_enhancer.limit: should be greater than or equal to 1, not 0",
        ),
        (
            "pending_jobs = 20",
            "pending_jobs = 0",
            "tiers.creator.pending_jobs: should be greater than or equal to 1, not 0",
        ),
        (
            "executions_per_job = 10_000",
            "executions_per_job = 0",
            "tiers.creator.executions_per_job: should be greater than or equal to 1, not 0",
        ),
        (
            "requests_per_minute = 300",
            "requests_per_minute = -1",
            "tiers.creator.requests_per_minute: should be greater than or equal to 1, not -1",
        ),
        (
            "concurrent_requests = 32",
            "concurrent_requests = 0",
            "tiers.creator.concurrent_requests: should be greater than or equal to 1, not 0",
        ),
        (
            "streams = 64",
            "streams = 0",
            "tiers.creator.streams: should be greater than or equal to 1, not 0",
        ),
        (
            "streams = 64",
            'models = ["nope"]',
            "tiers.creator.models has 'nope', which is not in [models]",
        ),
        (
            "openai_body_bytes = 20_971_520",
            "openai_body_bytes = 30_000_000",
            "router.body_bytes 25165824 must be at least 30000000, the larger of limits.body_bytes and ",
        ),
        (
            "{{ prompt_enhancer.enhanced_prompt }}",
            "{{ image_gen.image_url }}",
            "feature full_pipeline: step fast_chat_llm refers to 'image_gen', but only input, ",
        ),
        (
            "{{ input.prompt }}",
            "{{ input prompt }}",
            "feature full_pipeline: step prompt_enhancer: '{{ input prompt }}' is not of the form",
        ),
        ("[tiers.admin]", '[tiers."a b"]', 'tiers."a b": is not a usable name'),
        (
            'classes = ["low", "medium", "high"]',
            'classes = ["medium"]',
            "no pool serves class low: its jobs would wait forever",
        ),
        (
            'classes = ["low", "medium", "high"]',
            'classes = ["high", "low"]\nstrict = true',
            "no pool serves class low: its jobs would wait forever",
        ),
        ('classes = ["high"]', "classes = []", "pools.high.classes: needs at least 1 entry"),
        (
            "up_to_s = 30\n",
            "up_to_s = 5\n",
            "[[skip_prices]] must be sorted by up_to_s, each longer than the one before",
        ),
        (
            "price = 15\n",
            "price = 15\nup_to_s = 500\n",
            "the last of [[skip_prices]] must have no up_to_s: it is the price of all longer jobs",
        ),
        ("price = 15\n", "price = 1.5\n", "skip_prices[4].price: should be a valid integer"),
        (
            "heartbeat_s = 2.5",
            "heartbeat_s = 6",
            "runner.heartbeat_s 6.0 must be at most half of runner.lease_s",
        ),
        ("heartbeat_s = 2.5", "heartbeat_s = nan", "runner.heartbeat_s: should be"),
        (
            '[models."llama3.2-1b"]\n',
            '[models."llama3.2-1b"]\nrun_timeout_s = 0\n',
            'models."llama3.2-1b".run_timeout_s: should be greater than 0, not 0',
        ),
        ("[models.sdxl]", '[models."s d"]', 'models."s d": is not a usable name'),
        ("[groups.modal]\ncap = 10", "[groups]\nmodal = 10", "groups.modal: should be a table, not 10"),
    ],
)
def test_each_error_names_its_key_and_its_reason(copy: Copy, old: str, new: str, expected: str) -> None:
    errors = copy.errors(old, new)
    assert any(line.startswith(expected) for line in errors), errors


def test_all_errors_are_reported_together(copy: Copy) -> None:
    errors = copy.errors('class = "high"\nstarvation_bound_s = 30', 'class = "top"\nstarvation_bound_s = 0')
    assert len(errors) == 2


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ('http = { path = "/{modle}" }', "backends.us-1.http.path: has {modle}; only {model} and"),
        ('http = { path = "v1" }', "backends.us-1.http.path: 'v1' is not a path: it begins with /"),
        ('proxy = "socks5://a:1"', "backends.us-1.proxy: is neither an address that begins with http"),
        ('http = { output = "a[" }', "backends.us-1.http.output: is not a JMESPath expression: "),
        (
            'http = { output = "a.nofun(b)" }',
            "backends.us-1.http.output: uses nofun(), which is not a function",
        ),
        ('http = { request = { a = { b = "x(" } } }', "backends.us-1.http.request: a.b is not a JMESPath"),
        ('http = { request = { a = "prompt" } }', "backends.us-1.http.request: a uses prompt; a request is"),
        (
            'http = { request = { a = "[input.b, inputs[0].c]" } }',
            "backends.us-1.http.request: a uses inputs; a request is",
        ),
        ('http = { ouput = "a" }', "backends.us-1.http.ouput: is not a known key (misspelled?)"),
        ("http = {}", "backends.us-1: has http, but its dialect is modal"),
        ('headers = { "a b" = "x" }', "backends.us-1.headers: 'a b' is not the name of a header"),
        ('headers = { Host = "x" }', "backends.us-1.headers: Host is set by the router"),
        ('headers = { X-Key = "env:" }', "backends.us-1.headers.X-Key: is not the name of an environment"),
        ('api_key_env = "sk-1"', "backends.us-1.api_key_env: is not the name of an environment variable"),
        ('api_key_env = "A"\nbasic_auth = "env:B"', "backends.us-1: has more than one of api_key_env"),
        ('ca = "ca.pem"\nverify = false', "backends.us-1: has a ca although verify is false"),
    ],
)
def test_unusable_backend_settings_are_named_by_their_key(copy: Copy, keys: str, expected: str) -> None:
    errors = copy.errors('dialect = "modal"\n', f'dialect = "modal"\n{keys}\n')
    assert any(line.startswith(expected) for line in errors), errors


@pytest.mark.parametrize(
    "expression",
    [
        "input.image.prompt",
        "input.list[?a > `1`].b | [0]",
        "[input.list[*].prompt, params.options.*.x][]",
        "{a: model, b: request_id, c: sort_by(context.step, &size)}",
        "not_null(input.text, 'none') || !params.flag && @",
    ],
)
def test_fields_of_a_source_have_any_name(copy: Copy, expression: str) -> None:
    mapping = f'dialect = "http"\nhttp = {{ request = {{ a = "{expression}" }} }}\n'
    load_config(copy.write('dialect = "modal"\n', mapping), {})


def test_files_are_relative_to_the_configuration(copy: Copy) -> None:
    path = copy.write('dialect = "modal"\n', 'dialect = "modal"\nca = "ca.pem"\n')
    assert load_config(path, {}).backends["us-1"].ca == path.parent / "ca.pem"


def test_the_defaults_are_those_of_the_shipped_file(copy: Copy) -> None:
    text = SHIPPED.read_text(encoding="utf-8")
    start, end = text.index("[tiers.admin]"), text.index("[limits]")
    config = load_config(copy.write(text[start:end], ""), {})
    assert "tiers" not in config.model_fields_set
    assert config == shipped()


def test_a_lower_tier_cannot_have_a_shorter_bound_than_a_higher_one(copy: Copy) -> None:
    errors = copy.errors("starvation_bound_s = 120", "starvation_bound_s = 20")
    assert errors == [
        "tiers.free.starvation_bound_s 20 must be at least that of the higher tier supporter, 90"
    ]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "starvation_weight = 16",
            "starvation_weight = 0",
            "tiers.admin.starvation_weight: should be greater",
        ),
        (
            "slot_lease_s = 10",
            "slot_lease_s = 0.001",
            "router.slot_lease_s: should be greater than or equal to 1",
        ),
        ('fairness = "fair" ', 'fairness = "lottery" ', "router.fairness: should be 'fair' or 'fifo'"),
    ],
)
def test_a_policy_that_cannot_work_is_refused_by_its_key(
    copy: Copy, old: str, new: str, message: str
) -> None:
    (error,) = copy.errors(old, new)
    assert error.startswith(message)


def test_a_system_of_one_class_needs_one_pool(copy: Copy) -> None:
    text = SHIPPED.read_text(encoding="utf-8")
    start, end = text.index("[tiers.admin]"), text.index("[promotion]")
    tiers = "\n".join(
        f'[tiers.{tier}]\nclass = "low"\nstarvation_bound_s = 60\nstarvation_weight = 1'
        for tier in ("gold", "rest")
    )
    pools = '\n[pools.only]\nslots = 5\nclasses = ["low"]\n'
    config = load_config(copy.write(text[start:end], tiers + pools), {})
    assert list(config.pools) == ["only"]
    assert config.ranks == {"gold": 0, "rest": 1}
    assert config.known_tier("gold") == "gold"
    assert config.known_tier("removed") == config.known_tier(None) == "rest"
    assert [config.rank_of(tier) for tier in ("gold", "rest", "removed", None)] == [0, 1, 1, 1]


def test_an_empty_file_is_refused_with_the_missing_sections(tmp_path: Path) -> None:
    path = tmp_path / "empty.toml"
    path.touch()
    with pytest.raises(ConfigError) as refused:
        load_config(path, {})
    for key in ("regions", "backends", "models"):
        assert f"{path}: {key}: is missing" in str(refused.value)


def test_a_missing_file_is_refused_with_the_variable_to_set(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there is no such file; set BEACON_CONFIG"):
        load_config(tmp_path / "nowhere.toml", {})


def test_a_folder_is_not_a_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read: Is a directory"):
        load_config(tmp_path, {})


@pytest.mark.parametrize("content", [b"x = [", b"\xff\xfe"])
def test_a_file_that_is_not_toml_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "beacon.toml"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match="is not valid TOML"):
        load_config(path, {})


def test_the_environment_overrides_the_address_of_a_backend() -> None:
    config = shipped(
        {"BEACON_BACKEND_US_1_URL": "http://gpu.internal:9000/run", "BEACON_BACKEND_EU_1_URL": ""}
    )
    assert str(config.backends["us-1"].url) == "http://gpu.internal:9000/run"
    assert config.backends["eu-1"].url == shipped().backends["eu-1"].url


def test_an_invalid_address_is_reported_without_its_password(copy: Copy) -> None:
    (error,) = copy.errors(environ={"BEACON_BACKEND_US_1_URL": "ftp://me:secret@host"})
    assert error.startswith("backends.us-1.url (from BEACON_BACKEND_US_1_URL): is not an address")
    assert "secret" not in error


def test_every_backend_name_gives_a_valid_variable_name(copy: Copy) -> None:
    path = copy.write("[backends.us-1]", '[backends."eu/west:1.a"]')
    config = load_config(path, {"BEACON_BACKEND_EU_WEST_1_A_URL": "http://other:1/"})
    assert str(config.backends["eu/west:1.a"].url) == "http://other:1/"


def test_backends_with_the_same_variable_are_refused(copy: Copy) -> None:
    twin = '[backends.us_1]\nregion = "US"\ndialect = "modal"\nurl = "http://a"\nmodels = ["flux"]\n\n'
    (error,) = copy.errors("[backends.us-1]", twin + "[backends.us-1]")
    assert error == "backends us_1 and us-1 are both set by BEACON_BACKEND_US_1_URL"


def test_the_configuration_is_immutable() -> None:
    with pytest.raises(ValueError, match="frozen"):
        shipped().limits.queue_size = 1  # type: ignore[misc]
