"""Package data: policy templates (`*.py.j2`) and the description of the policy interface (`interface.md`)."""
