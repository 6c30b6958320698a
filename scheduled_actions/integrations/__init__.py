"""Integrations: other platforms and frameworks; a module is imported only by the applications that use it."""
