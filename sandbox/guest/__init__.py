"""What runs inside the sandbox: the runner, and the child that it forks for each replay.

Nothing here imports more than the standard library and `sandbox.api`: the image holds nothing else.
"""
