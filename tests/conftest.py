import sys
from pathlib import Path

import pytest

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "examples" / "studies")]
pytest.register_assert_rewrite("learner_pair", "learner_machine")  # for their assertions to show what differs
