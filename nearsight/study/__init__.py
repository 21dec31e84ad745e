"""Many runs: design them, run them to the end, analyse and show them."""
