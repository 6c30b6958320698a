"""The attempts of a tick: how a handler is called, and what comes of it."""
