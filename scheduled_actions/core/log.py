"""The logger of the package: applications configure it by its name, `scheduled_actions`."""

import logging

log = logging.getLogger("scheduled_actions")
