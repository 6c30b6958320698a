"""The dashboard: HTML pages for people, at `/dashboard`.

A page calls the API's own routes, which decide what a caller may see and change; an error becomes an error page. A page
with a form catches `ScheduledActionsError` and shows the form again. Every page works without scripts; with scripts,
parts of a page refresh automatically.

The map of the code, docs/explanation/architecture.md, lists what a new page needs. A typical module to start with is
`schedules.py`.
"""
