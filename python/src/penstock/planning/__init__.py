"""penstock.plan and penstock.tune: classes of samples, ways of keeping them, the solver, machines, layouts."""
