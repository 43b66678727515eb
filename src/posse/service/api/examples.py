"""An example of each body, answer and problem, for the API's description: shops in three towns try offers."""

from typing import Any

KEY = "visit-4711"
ARMS, PLAYERS, ID = ["coupon", "nothing"], ["Lyon", "Nice"], "0-472650ea"
ZEROS, NONE = [[0.0, 0.0], [0.0, 0.0]], [[0.5, None], [None, None]]

_decision = {"id": ID, "player": "Lyon", "arm": "coupon", "propensity": 0.5}
_decision |= {"probabilities": {"coupon": 0.5, "nothing": 0.5}, "round": 1, "shared": 1.0, "holdout": False}
_flag: dict[str, Any] = {"key": "offers", "reason": "SPLIT", "variant": "coupon", "value": "coupon"}
_flag |= {"metadata": {"decision": ID, "propensity": 0.5, "experiment": "offers"}}
_taken = {"decision": ID, "status": "taken", "detail": None}
_unknown = {"decision": "99-00000000", "status": "unknown", "detail": "decision 99-00000000 was not made in …"}
_outcome = {"range": [0.0, 1.0], "at_most": 0.05, "at_least": None, "action": "retire"}
_experiment = {
    "name": "offers",
    "policy": {"name": "PosseTS", "constants": {}, "label": "PosseTS"},
    "arms": [{"name": name, "here": True} for name in ARMS],
    "players": [{"name": name, "here": True} for name in PLAYERS],
    **{"player_count": 2, "status": "running", "description": "Which offer?", "ship": None, "ship_for": {}},
    **{"horizon": None, "reward_range": [0.0, 1.0], "floor": 0.0, "holdout": 0.0},
    **{"default_reward": None, "patience": None, "attributes": {}, "player_limit": 100_000},
    **{"shares": {"coupon": [0.05, 0.3]}, "control": "nothing", "burn_in": 500},
    "outcomes": {"refund": _outcome},
    **{"rounds": 1, "decisions": 1, "rewards": 1, "waiting": 0, "created_at": 1767225600.0},
}
_pull = {"decision": ID, "round": 1, "player": "Lyon", "arm": "coupon"}
_rows = [
    {"event": 1, "kind": "decision", **_pull, "propensity": 0.5, "holdout": False, "shared": 1.0, "decided_at": 1.8e9},
    {"event": 2, "kind": "reward", **_pull, "reward": 1.0, "observed": 1, "defaulted": False, "observed_at": 1.8e9},
    {"event": 3, "kind": "join", "observed_at": 1.8e9, "player": "Metz"},
    {"event": 4, "kind": "shares", "observed_at": 1.8e9, "shares": {"coupon": [0.05, 0.3]}},
    {"event": 5, "kind": "outcome", **_pull, "outcome": "refund", "value": 0.0, "observed_at": 1.8e9},
]
_state = {"players": PLAYERS, "arms": ARMS, "pulls": [[1, 0], [0, 0]], "means": [[1.0, None], [None, None]]}
_diagnosis = {
    **{"schema": 2, "kind": "diagnosis", **_state, "lower": ZEROS, "upper": [[1.0, 1.0], [1.0, 1.0]]},
    **{"bounds": [0.0, 0.0], "pairs": [None, None], "low": 0.0, "high": 1.0, "epsilon": 0.1, "level": 0.05},
    **{"shared": [0.5, 1.0], "decisions": None, "missing": None, "alarm": False, "broken": [], "bound": 0.0},
    **{"verdict": "There is not enough data yet.", "notes": [], "costs": None},
}
_state |= {"low": ZEROS, "high": [[1.0, 1.0], [1.0, 1.0]], "centers": NONE, "scales": NONE, "shared": NONE}
_check = {"about": "choices", "decisions": 1000, "level": 0.01, "evidence": 0.7}
_effect = {"decisions": 950, "value": 0.1, "low": 0.02, "high": 0.17}
_watch = {
    **{"decisions": 1000, "answered": 950, "arms": ARMS, "notes": []},
    "checks": [_check | {"alarm": None, "path": [], "deviations": []}],
    "effects": [{"against": "holdout", "control": False, **_effect, "path": []}],
    "guards": [],
}
_arm = {"name": "coupon", "offered": True, "answers": 900, "share": 0.9, "mean": 0.3, "low": 0.2, "high": 0.4}
_arm |= {"expected": 0.31}
_losses = {"own_loss": 0.0, "going_loss": 0.01}
_conclusion = {
    **{"schema": 1, "kind": "conclusion", "verdict": "Ship coupon for everybody: it is better than every other arm."},
    **{"level": 0.05, "tolerance": 0.0, "decisions": 1000, "answers": 950, "arms": [_arm | {"chance": 0.99}]},
    **{"players": [], "winner": "coupon", "since": 800, "leader": "coupon", "alone": 0, "alarms": [], "notes": []},
    "differences": [{"against": "nothing", "value": 0.1, "low": 0.02, "high": 0.17}],
    **{"ship_loss": 0.0, **_losses, "doubts": [], "digest": "8c1f0b7a…"},
    "best": {"chances": [], "overall": [0.99], "means": [0.31], "others": [], "one_loss": [0.0], **_losses},
}
_token = {"number": 2, "scopes": ["decide", "reward"], "experiment": None, "label": "tills"}
_token |= {"created_at": 1.8e9, "expires_at": None, "revoked_at": None}
_entry = {"number": 7, "at": 1.8e9, "who": "Ada", "action": "change", "experiment": "offers", "detail": "archive"}

EXAMPLES: dict[str, list[dict[str, Any]]] = {
    "ExperimentBody": [
        {"name": "offers", "arms": ARMS, "players": PLAYERS},
        {"name": "ramp", "arms": ARMS, "shares": {"coupon": [0.05, 0.3]}, "control": "nothing", "burn_in": 500},
        {"name": "guarded", "arms": ARMS, "outcomes": {"refund": {"at_most": 0.05, "action": "retire"}}},
        {"name": "teas", "arms": ["green", "black"], "policy": {"name": "RobustAggTS", "constants": {"epsilon": 0.1}}},
    ],
    "ChangeBody": [
        {"join": ["Metz"], "retire_arms": ["nothing"]},
        {"shares": {"coupon": 0.5}},
        {"status": "paused"},
        {"status": "finished", "ship": "coupon", "ship_for": {"Nice": "nothing"}},
    ],
    "OneDecisionBody": [{"player": "Lyon"}, {"player": "Lyon", "available": ["coupon"]}],
    "DecisionsBody": [{"players": PLAYERS}],
    "CombinationBody": [{"attributes": {"region": "south", "age": 44}}],
    "RewardBody": [{"decision": ID, "reward": 1.0}, {"decision": ID, "outcomes": {"refund": 0.0}}],
    "RewardsBody": [{"rewards": [{"decision": ID, "reward": 1.0}, {"decision": "99-00000000", "reward": 0.0}]}],
    "RecordsBody": [{"rewards": [{"player": "Lyon", "arm": "coupon", "reward": 1.0}]}],
    "ErasureBody": [{"player": "Lyon"}],
    "ExperimentAnswer": [_experiment],
    "ExperimentsAnswer": [{"experiments": [_experiment], "next": None}],
    "PlayersAnswer": [{"players": [{"name": "Lyon", "here": True, "attributes": {"region": "south"}}], "next": None}],
    "DecisionsAnswer": [{"decisions": [_decision]}],
    "RewardOutcome": [_taken],
    "OutcomesAnswer": [{"outcomes": [_taken, _unknown], "taken": 1}],
    "RecordsAnswer": [{"taken": 1}],
    "ErasureAnswer": [{"player": "erased-8c1f0b7a3d5e9264"}],
    "LogAnswer": [{"rows": _rows, "next": None}],
    "StateAnswer": [_state | {"probabilities": [[0.5, 0.5], [0.5, 0.5]], "next": None}],
    "DiagnosisResult": [_diagnosis],
    "Watch": [_watch],
    "ConclusionResult": [_conclusion],
    "TokenBody": [{"scopes": ["decide", "reward"], "label": "tills"}],
    "TokenAnswer": [{"token": "posse_2_…", "number": 2}],
    "TokensAnswer": [{"tokens": [_token]}],
    "RevocationAnswer": [{"number": 2}],
    "DeletionAnswer": [{"name": "offers", "decisions": 1}],
    "AuditAnswer": [{"entries": [_entry], "next": None}],
    "HealthAnswer": [{"status": "alive"}],
    "EvaluationBody": [
        {"context": {"targetingKey": "Lyon"}},
        {"context": {"targetingKey": "visit-1", "player": "Lyon"}},
    ],
    "FlagAnswer": [_flag],
    "FlagsAnswer": [{"flags": [_flag]}],
}
"""By the name of the schema."""
