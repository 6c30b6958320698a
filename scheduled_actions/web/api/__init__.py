"""The management API, with its OpenAPI document and its documentation page."""
