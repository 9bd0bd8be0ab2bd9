"""The cost algebra: operators, the work they ask for, and the time a machine takes over it."""
