"""Where candidates come from: templates with a declared parameter space, and those who search it."""
