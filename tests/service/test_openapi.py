"""The API's description: complete, true, and good enough that a generated client works."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path

import jsonschema_rs
import pytest
from schemathesis.specs.openapi.definitions import OPENAPI_31_VALIDATOR

from posse.policies import all_policies
from posse.service.problems import KINDS, TYPE

PROBLEM = "application/problem+json"


@pytest.fixture(scope="module")
def described(http):
    return http.get("/openapi.json").json()


@pytest.fixture(scope="module")
def operations(described):
    return {each["operationId"]: each for methods in described["paths"].values() for each in methods.values()}


def fits(described, name, example):
    """Whether an example is as a schema of the description says."""
    pointer = {"$ref": f"#/components/schemas/{name}", "components": described["components"]}
    return jsonschema_rs.Draft202012Validator(pointer).is_valid(example)


def referred(schema):
    """The names of the schemas that a schema refers to at once."""
    forms = schema.get("anyOf") or schema.get("oneOf") or [schema]
    return [form["$ref"].rpartition("/")[2] for form in forms]


def parts_of(schema):
    """A schema and everything in it that is one."""
    yield schema
    for value in schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ():
        if isinstance(value, (dict, list)):
            yield from parts_of(value)


# ---------------------------------------------------------------- the description


def test_it_is_openapi(described):
    OPENAPI_31_VALIDATOR.validate(described)
    assert not OPENAPI_31_VALIDATOR.is_valid(described | {"paths": {"/x": {"get": {"responses": "none"}}}})


def test_every_body_and_answer_has_examples_that_fit(described, operations):
    seen = set()
    for operation in operations.values():
        answers = [answer for status, answer in operation["responses"].items() if status < "300"]
        for sent in [*answers, *filter(None, [operation.get("requestBody")])]:
            if "text/html" in sent["content"]:
                continue
            for name in referred(sent["content"]["application/json"]["schema"]):
                seen.add(name)
                for example in described["components"]["schemas"][name]["examples"]:
                    assert fits(described, name, example), (name, example)
                    assert not fits(described, name, {}) or name == "ChangeBody"
    assert {
        "ExperimentBody",
        "CombinationBody",
        "RewardOutcome",
        "LogAnswer",
        "DiagnosisResult",
        "Watch",
        "ConclusionResult",
    } <= seen


def test_every_operation_says_where_it_belongs_and_what_it_asks_for(described, operations):
    tags = {tag["name"] for tag in described["tags"]}
    scopes = {}
    for name, operation in operations.items():
        assert len(set(operation["tags"]) & tags) == 1
        assert operation["description"]
        scopes[name] = [scope for way in operation["security"] for scope in way["token"]]
    assert (scopes["decide"], scopes["reward"], scopes["read_log"], scopes["erase"]) == (
        *(["decide"], ["reward"]),
        *(["read"], ["admin"]),
    )
    assert operations["alive"]["security"] == []
    for name in ("decide", "record", "create_experiment", "change_experiment", "erase"):
        keys = [each for each in operations[name]["parameters"] if each["name"].lower() == "idempotency-key"]
        assert [each["example"] for each in keys] == ["visit-4711"], name


def test_every_problem_is_described_with_an_example(described, operations):
    responses = described["components"]["responses"]
    for operation in operations.values():
        for status, answer in operation["responses"].items():
            if status >= "400":
                assert answer["$ref"] == f"#/components/responses/Problem{status}"
    kinds = {}
    for answer in responses.values():
        for kind, example in answer["content"][PROBLEM]["examples"].items():
            assert fits(described, "ProblemDetails", example["value"])
            kinds[kind] = (example["value"]["status"], example["value"]["title"])
    assert kinds == KINDS
    assert responses["Problem503"]["headers"]["Retry-After"]["schema"] == {"type": "integer"}


def test_what_is_one_of_a_few_is_listed(described):
    schemas = described["components"]["schemas"]
    assert schemas["RewardOutcome"]["properties"]["status"]["enum"] == [
        *("taken", "known", "conflict", "unknown", "invalid")
    ]
    assert schemas["ProblemDetails"]["properties"]["type"]["enum"] == [TYPE + kind for kind in KINDS]
    names = schemas["PolicyAnswer"]["properties"]["name"]["enum"]
    assert {"PosseTS", "RobustAggTS"} <= set(names) <= {cls.__name__ for cls in all_policies()}
    assert set(schemas["LogAnswer"]["properties"]["rows"]["items"]["discriminator"]["mapping"]) == {
        *("decision", "reward", "outcome", "record", "alarm", "shares", "join", "retire", "erase"),
        *("add arm", "retire arm", "pause", "resume", "finish", "archive", "restore", "describe", "rounds", "rebuild"),
    }


def test_nothing_is_untyped(described):
    said = ("type", "$ref", "anyOf", "oneOf", "enum", "const")
    for name, schema in described["components"]["schemas"].items():
        for part in parts_of({key: value for key, value in schema.items() if key != "examples"}):
            if isinstance(part, dict):
                assert part.get("additionalProperties") is not True, name
                for of in [*part.get("properties", {}).values(), *filter(None, [part.get("items")])]:
                    assert set(said) & set(of), (name, of)


# ---------------------------------------------------------------- a client generated from it


@pytest.fixture(scope="module")
def offers(http, tmp_path_factory):
    """A client that a generator made from the description of a running service."""
    folder = tmp_path_factory.mktemp("generated")
    (folder / "options.yaml").write_text("post_hooks: []\n")  # it would be formatted otherwise
    command = [str(Path(sys.executable).parent / "openapi-python-client"), "generate", "--meta", "none"]
    command += ["--url", f"{http.base_url}/openapi.json", "--output-path", str(folder / "offers_client")]
    done = subprocess.run(
        [*command, "--config", "options.yaml", "--fail-on-warning"], cwd=folder, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    sys.path.insert(0, str(folder))
    yield importlib.import_module("offers_client")
    sys.path.remove(str(folder))


def test_a_generated_client_does_everything_with_types(http, offers):
    with offers.Client(base_url=str(http.base_url), raise_on_unexpected_status=True) as client:
        do_everything(client, offers, importlib.import_module("offers_client.models"))


def do_everything(client, offers, models):
    def call(operation, *args, **kwargs):
        groups = ("experiments", "decisions", "reading", "operation")
        (group,) = [g for g in groups if (Path(offers.__file__).parent / "api" / g / f"{operation}.py").exists()]
        return importlib.import_module(f"offers_client.api.{group}.{operation}").sync(*args, client=client, **kwargs)

    policy = models.RobustAggTS(name="RobustAggTS", constants=models.RobustAggTSConstants(epsilon=0.1))
    body = models.ExperimentBody(name="offers", arms=["coupon", "nothing"], players=["Lyon", "Nice"], policy=policy)
    made = call("create_experiment", body=body)
    assert isinstance(made, models.ExperimentAnswer)
    assert made.policy.name is models.PolicyAnswerName.ROBUSTAGGTS

    one = models.OneDecisionBody(player="Lyon")
    answer = call("decide", "offers", body=one, idempotency_key="visit-1")
    (decision,) = answer.decisions
    assert isinstance(decision, models.Decision)
    assert call("decide", "offers", body=one, idempotency_key="visit-1").decisions == [decision]
    both = call("decide", "offers", body=models.DecisionsBody(players=["Lyon", "Nice"])).decisions

    reward = models.RewardBody(decision=decision.id, reward=1.0)
    statuses = [call("reward", "offers", body=reward).status for _ in range(2)]
    assert statuses == [models.RewardOutcomeStatus.TAKEN, models.RewardOutcomeStatus.KNOWN]
    rewards = models.RewardsBody(rewards=[models.RewardBody(decision=each.id, reward=0.0) for each in both])
    assert call("reward", "offers", body=rewards).taken == 2
    records = models.RecordsBody(rewards=[models.RecordBody(player="Lyon", arm="nothing", reward=1.0)])
    assert call("record", "offers", body=records).taken == 1
    refused = call("reward", "offers", body=models.RewardBody(decision=decision.id, reward=0.0))
    assert isinstance(refused, models.ProblemDetails)
    assert refused.type_.value == "urn:posse:problem:conflicting-reward"
    wrong = call("create_experiment", body=models.ExperimentBody(name="offers 2", arms=["a"], horizon=0))
    assert isinstance(wrong.errors[0], models.ProblemPart)

    state = call("read_state", "offers")
    assert isinstance(state, models.StateAnswer)
    assert sum(map(sum, state.pulls)) == 4
    change = models.ChangeBody.from_dict({"join": ["Metz"], "add_arms": ["tea"], "status": "paused"})
    changed = call("change_experiment", "offers", body=change)
    assert [each.name for each in changed.players] == ["Lyon", "Nice", "Metz"]
    erased = call("erase", "offers", body=models.ErasureBody(player="Nice")).player
    assert [each.name for each in call("read_players", "offers").players] == ["Lyon", erased, "Metz"]

    diagnosis = call("read_diagnosis", "offers")
    assert isinstance(diagnosis, models.DiagnosisResult)
    assert (diagnosis.epsilon, diagnosis.alarm) == (0.1, False)
    assert isinstance(diagnosis.levels, models.DifferenceAnswer)
    assert isinstance(call("read_watch", "offers"), models.Watch)
    concluded = call("read_conclusion", "offers")
    assert isinstance(concluded, models.ConclusionResult)
    assert concluded.answers == 3
    assert "<html" in call("read_summary", "offers")
    kinds = [type(row).__name__ for row in call("read_log", "offers").rows]
    assert kinds == [
        *("LogDecision",) * 3,
        *("LogReward",) * 3,
        *("LogRecord", "LogArmChange", "LogPlayerChange", "LogChange"),
        *("LogPlayerChange",) * 2,
    ]
    assert [each.name for each in call("list_experiments").experiments] == ["offers"]
    assert call("alive").status is models.HealthAnswerStatus.ALIVE
