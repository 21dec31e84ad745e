"""Plan, run and analyse studies: many runs that differ in settings and seeds."""
