"""The dashboard: pages for people, at `/dashboard`.

Each page asks the API's own routes, so that what a caller may, and of which team, is decided in one place. What no
route answers (the overview's pulse, the days of the calendar, outcomes in a row, a simulation) a page asks a service
for, with the caller's team. It works without a script; with one it keeps itself fresh.

To add a page:

1. A module with a function for each page, and what it answers to:

   ```python
   def overview(visit: Visit) -> View:
       schedules = visit.ask("GET", "/schedules", query={"limit": 50})  # the API's own document
       return View("schedules.html", {"schedules": schedules.schedules})


   def pause(visit: Visit) -> Moved:
       visit.ask("POST", f"/schedules/{visit.path['id']}/pause")          # refuses what the API refuses
       return Moved(f"/schedules/{visit.path['id']}", "Paused.")


   PAGES = (
       Page("GET", "/schedules", overview, nav=Nav("Schedules", "repeat")),
       Page("POST", "/schedules/{id}/pause", pause, role=Role.OPERATOR),
   )
   ```

   A refusal that is not caught is shown as a page that says what would be right. `visit.ask` raises the API's errors: a
   page that holds a form catches `ScheduledActionsError` and shows the form again (see `scheduling.py`).
2. Its name in `site_map.py`; the order there is that of the navigation.
3. A template that extends `layout.html`. `{% from "parts.html" import … with context %}` has what pages are made of:
   `live` (a part that keeps itself fresh), `post_button` (a form of one button, with its CSRF token), `json`,
   `pager`, `empty`, `problem`, `hidden` (the token, for forms of your own). Filters: `instant`, `ago`, `seconds`,
   `count`, `when_input`. Functions: `link("/path", name=value)`, `may("operator")`, `badge(status)`. No style and no
   script may stand in a template: the browser is told to refuse them; `static/` has one file of each.
4. Its address in docs/reference/http.md, and tests that open it: tests/dashboard (a Flask client), tests/browser.
"""
