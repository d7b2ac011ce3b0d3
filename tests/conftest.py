"""Settings every test shares."""

from hypothesis import HealthCheck, settings

# The same examples in every run: a failure can be reproduced, and the error rates
# that statistical tests state are those of one fixed set of draws.
settings.register_profile(
    "fixed",
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("fixed")
