"""The dashboard: pages for people, at `/dashboard`.

A page asks the API's own routes, which decide what a caller may see and change; a refusal that is not caught becomes a
page that says what would be right. A page with a form catches `ScheduledActionsError` and shows the form again. Every
page works without a script; with one, its live parts keep themselves fresh.

The map of the code, docs/explanation/architecture.md, lists what a new page takes. A small area to read first:
`operations/ticks.py`.
"""
