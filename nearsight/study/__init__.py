"""Many runs: plan, run to the end, compare."""
