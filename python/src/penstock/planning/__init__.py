"""penstock.plan and penstock.tune: classes of samples, ways of storing and caching them, the solver, machines, layouts."""
