"""Many at once: doubled rewards, one key a hundred times, processes that write side by side, and a frozen state."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from random import Random

import httpx
import numpy as np
import pytest
from compared import rows
from fleet import FULL, fleet, needs_service, new_postgres_database, run_posse
from scipy import stats
from traffic import ARMS, CONTEXT, EXPERIMENT, PLAYERS, begin, pull, start

import posse
from posse.service.admin.verify import verify
from posse.service.commands import Choose, Create, Observe, check_report
from posse.service.storage import queries
from posse.service.storage import schema as tables
from posse.service.storage.store import ServiceStore
from posse.service.storage.transaction import commit
from stores import counts, indices

pytestmark = needs_service

PATH = f"/v1/experiments/{EXPERIMENT}"


@pytest.fixture(scope="module")
def database(tmp_path_factory):
    return f"sqlite:///{tmp_path_factory.mktemp('contention')}/posse.db"


@pytest.fixture(scope="module")
def services(database, tmp_path_factory):
    """Two services of two workers each on one database, so that it is known which of them is asked."""
    folder = tmp_path_factory.mktemp("services")
    with fleet(database, folder, workers=2) as first, fleet(database, folder, workers=2) as second:
        begin(first.url)
        yield first.url, second.url


def test_rewards_that_come_twice_and_out_of_order_count_once(database, services):
    random = Random(30)
    with httpx.Client(timeout=30) as client:
        made = [
            decision["id"]
            for _ in range(50)
            for decision in client.post(f"{services[0]}{PATH}/decisions", json={"players": PLAYERS}).json()["decisions"]
        ]
    value = {identity: random.choice([0.0, 0.5, 1.0]) for identity in made}
    again = random.sample(made, len(made) * 3 // 10)
    sent = [(identity, value[identity]) for identity in made + again]
    random.shuffle(sent)
    answers = send_all(services, sent)
    assert {status for status, _ in answers} == {200}
    assert sum(said == "taken" for _, said in answers) == len(made)
    assert sum(said == "known" for _, said in answers) == len(again)
    differing = send_all(services, [(identity, 0.75) for identity in again])
    assert {status for status, _ in differing} == {409}
    assert rows(database, "SELECT sum(pulls) FROM stats")[0][0] == len(made)
    held = rows(database, "SELECT reward FROM rewards")
    assert sorted(reward for (reward,) in held) == sorted(value.values())


def send_all(services: tuple[str, str], sent: list[tuple[str, float]]) -> list[tuple[int, str]]:
    """Send rewards eight at a time; a decision's second report goes to the other service. Status and what it says."""
    seen: set[str] = set()
    targets = []
    for identity, _ in sent:
        targets.append(services[identity in seen])
        seen.add(identity)
    with httpx.Client(timeout=30, limits=httpx.Limits(max_connections=8)) as client, ThreadPoolExecutor(8) as pool:

        def send(target: str, report: tuple[str, float]) -> tuple[int, str]:
            body = {"decision": report[0], "reward": report[1]}
            answer = client.post(f"{target}{PATH}/rewards", json=body)
            return answer.status_code, answer.json().get("status", "")

        return list(pool.map(send, targets, sent))


def test_one_key_a_hundred_times_is_one_decision(services):
    def ask(number: int, key: dict[str, str]) -> str:
        url = services[number % 2]
        answer = httpx.post(f"{url}{PATH}/decisions", json={"player": PLAYERS[0]}, headers=key, timeout=30)
        assert answer.status_code == 200, answer.text
        return answer.json()["decisions"][0]["id"]

    with ThreadPoolExecutor(100) as pool:
        same = list(pool.map(lambda number: ask(number, {"Idempotency-Key": "one"}), range(100)))
        different = list(pool.map(lambda number: ask(number, {}), range(100)))
    assert len(set(same)) == 1
    assert len(set(different)) == 100  # without the key, each is one of its own


CHANGES = {
    "records": ("POST", f"{PATH}/records", {"rewards": [{"player": PLAYERS[0], "arm": ARMS[0], "reward": 1}]}),
    "create": ("POST", "/v1/experiments", {"name": "once", "arms": ["a", "b"]}),
    "join": ("PATCH", PATH, {"join": ["somebody"]}),
    "erase": ("POST", f"{PATH}/erasures", {"player": "somebody"}),
}


def test_one_key_a_hundred_times_is_one_change(database, services):
    for kind, (method, path, body) in CHANGES.items():

        def send(number: int, method=method, path=path, body=body, kind=kind) -> tuple[int, str]:
            key = {"Idempotency-Key": f"one {kind}".replace(" ", "-")}
            answer = httpx.request(method, f"{services[number % 2]}{path}", json=body, headers=key, timeout=30)
            return answer.status_code, answer.text

        (told,) = rows(database, "SELECT max(links), sum(rewards) FROM experiments")
        with ThreadPoolExecutor(100) as pool:
            (answer,) = set(pool.map(send, range(100)))
        assert answer[0] in (200, 201)
        (now,) = rows(database, "SELECT max(links), sum(rewards) FROM experiments")
        new = {"records": 1, "create": 0, "join": 1, "erase": 2}[kind]
        assert now == (told[0] + new, told[1] + (kind == "records"))


def test_a_store_that_forgets_its_answers_would_be_caught(tmp_path, monkeypatch):
    """The control: without the check and the primary key, a reward counts twice, and `verify` says so."""
    database = f"sqlite:///{tmp_path}/posse.db"
    store = ServiceStore(database, create=True)
    with store.engine.begin() as connection:
        connection.exec_driver_sql("DROP TABLE rewards")
        columns = ", ".join(column.name for column in tables.rewards.columns)
        connection.exec_driver_sql(f"CREATE TABLE rewards ({columns})")
    commit(store, Create(EXPERIMENT, posse.PosseTS(), ARMS, PLAYERS, seed=1))
    (decision,) = commit(store, Choose(EXPERIMENT, [PLAYERS[0]]))
    assert commit(store, Observe(EXPERIMENT, [(decision.id, 1.0)]))[0].status == "taken"
    assert verify(store) == []
    assert commit(store, Observe(EXPERIMENT, [(decision.id, 1.0)]))[0].status == "known"

    def forget(fresh, identity, *report):
        serial, recent = int(identity.partition("-")[0]), fresh._known
        if (answer := recent.answers.pop(serial, None)) is not None:
            recent.waiting[serial] = reports_row(serial, answer[0])
        return check_report(fresh, identity, *report)

    monkeypatch.setattr("posse.service.commands.check_report", forget)
    assert commit(store, Observe(EXPERIMENT, [(decision.id, 1.0)]))[0].status == "taken"
    assert rows(database, "SELECT sum(pulls) FROM stats") == [(2,)]
    assert rows(database, "SELECT count(*) FROM rewards") == [(2,)]
    assert verify(store)
    store.close()


def reports_row(serial, tag):
    from posse.learner.ledger import Row

    return Row(serial, tag, 1, 0, 0, 1.0, False, 0.0, 0.0)


# ---------------------------------------------------------------- processes side by side


PROCESSES = 16
ROUNDS = 500 if FULL else 4  # of ten pairs each
SEVERAL = [f"teas {number}" for number in range(3)]


def test_sixteen_processes_side_by_side_leave_a_log_that_replays_to_the_live_state():
    with new_postgres_database() as database:
        store = ServiceStore(database, create=True)
        for name in SEVERAL:
            commit(store, Create(name, posse.PosseTS(), ARMS, PLAYERS, seed=1))
        failures = CONTEXT.Queue()
        for process in start(PROCESSES, pull, lambda seed: (database, SEVERAL, ROUNDS, seed, failures)):
            process.join()
        assert failures.empty(), failures.get()
        taken = sum(store.read(queries.experiment, name).rewards for name in SEVERAL)
        assert taken == PROCESSES * ROUNDS * 10
        for name in SEVERAL:
            check_replay(store, name)
        assert rows(database, "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()") == [(0,)]
        store.close()
        verified = run_posse("db", "verify", "--database", database)
        assert verified.returncode == 0, verified.stdout + verified.stderr


def check_replay(store: ServiceStore, name: str) -> None:
    """A learner that replays the log stands where the store does, to the last bit."""
    log, live = store.read(queries.log_table, name), counts(store, name)
    replayed = posse.Learner.replay(log)
    assert same_counts(replayed.counts(), live)
    found, same = indices(store, name), queries.indices(replayed.state)
    for field in ("centers", "scales", "weights", "probabilities"):
        np.testing.assert_array_equal(getattr(same, field), getattr(found, field))


def same_counts(one, other) -> bool:
    return bool(np.array_equal(one.pulls, other.pulls) and np.array_equal(one.sums, other.sums))


# ---------------------------------------------------------------- a frozen state


DECISIONS = 100_000 if FULL else 20_000
SHOPS = [f"shop {number}" for number in range(100)]


def test_decisions_from_a_frozen_state_follow_their_logged_propensities(database, services):
    """Pearson's χ² over (player, arm), each expected as often as its propensities say; four workers decide."""
    random, name = np.random.default_rng(5), "frozen"
    means = random.uniform(0.2, 0.6, len(ARMS))
    with posse.Client(services[0]) as client:
        client.create(name, ARMS, SHOPS, seed=3, floor=0.05)
        for _ in range(4):
            past = [
                (shop, arm, float(random.random() < means[place])) for shop in SHOPS for place, arm in enumerate(ARMS)
            ]
            client.record(name, past)

    def ask(number: int) -> int:
        return len(clients[number % 2].choose(name, SHOPS))

    with posse.Client(services[0]) as first, posse.Client(services[1]) as second, ThreadPoolExecutor(4) as pool:
        clients = first, second
        assert sum(pool.map(ask, range(DECISIONS // len(SHOPS)))) == DECISIONS
    query = "SELECT player, arm, probabilities FROM decisions WHERE experiment = (SELECT id FROM experiments WHERE name"
    logged = rows(database, f"{query} = '{name}')")
    observed, expected = np.zeros((len(SHOPS), len(ARMS))), np.zeros((len(SHOPS), len(ARMS)))
    for player, arm, probabilities in logged:
        observed[player, arm] += 1
        expected[player] += np.frombuffer(probabilities, "<f8")
    assert chi_square(observed, expected) > 0.001
    tilted = expected * [1.2, 1.0, 0.8]  # the control: propensities that are a fifth off
    assert chi_square(observed, tilted * expected.sum(1, keepdims=True) / tilted.sum(1, keepdims=True)) < 1e-6


def chi_square(observed: np.ndarray, expected: np.ndarray) -> float:
    """The p-value, each player's decisions being fixed in number."""
    assert expected.min() >= 5, "too few are expected of an arm for Pearson's test"
    statistic = ((observed - expected) ** 2 / expected).sum()
    return float(stats.chi2.sf(statistic, observed.shape[0] * (observed.shape[1] - 1)))
