"""Whether an experiment can end, which arm to ship for whom, and what that rests on."""
