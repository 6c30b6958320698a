"""The OpenAPI document of the management API, and its HTML page."""
